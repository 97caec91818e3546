//! Bodies: bounded after decompression, read to their end within the request's time.

use axum::body::{Body, Bytes};
use axum::extract::FromRequest;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use http_body_util::BodyExt as _;

use crate::App;
use crate::problem::Problem;

/// Of a body that is too large, so much is still read and thrown away: a client that is cut off in the middle of sending
/// never sees why.
const THROWN_AWAY: usize = 16 * 1024 * 1024;

/// A body of JSON. It may be empty; the call decides what that means.
pub struct JsonBody(pub Bytes);

impl FromRequest<App> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let bytes = read(request.into_body(), app.config.api.max_body_bytes).await?;
        let json = kind.as_ref().and_then(|kind| kind.to_str().ok()).is_some_and(is_json);
        if !bytes.is_empty() && !json {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-type-unsupported",
                "The body is not said to be JSON",
                "Send the body as JSON with the header Content-Type: application/json.",
            ));
        }
        Ok(Self(bytes))
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

async fn read(mut body: Body, most: usize) -> Result<Bytes, Problem> {
    let (mut bytes, mut thrown_away) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::body(format!("the body could not be read to its end: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if thrown_away == 0 && bytes.len() + data.len() <= most {
            bytes.extend_from_slice(&data);
            continue;
        }
        bytes = Vec::new();
        thrown_away += data.len();
        if thrown_away > THROWN_AWAY {
            break;
        }
    }
    if thrown_away > 0 {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body-too-large",
            "The body is too large",
            format!("A body may have {most} bytes after decompression. Send less, or have max_body_bytes raised."),
        ));
    }
    Ok(bytes.into())
}
