//! The `Idempotency-Key` header: quoted (an sf-string of RFC 9651) or bare, one line, nothing cut.

use axum::http::{HeaderMap, StatusCode};
use onejob_common::domain::IdempotencyKey;
use sfv::{BareItem, Item, Parser};

use crate::problem::Problem;

const NAME: &str = "idempotency-key";

/// The key of a request.
///
/// # Errors
///
/// `400 idempotency-key-missing` without the header; `400 idempotency-key-invalid` with more than one, or with a value
/// that is no key.
pub fn of(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let mut lines = headers.get_all(NAME).iter();
    let Some(line) = lines.next() else {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "idempotency-key-missing",
            "Idempotency-Key is missing",
            "Send an Idempotency-Key header: one key for one intent, the same again when you repeat the request.",
        ));
    };
    // Joined they could be a third key, and one of them alone would be half of what was said.
    if lines.next().is_some() {
        return Err(invalid("the header stands more than once: send it once"));
    }
    let text = std::str::from_utf8(line.as_bytes())
        .map_err(|_| invalid("the key has bytes beyond ASCII: use printable ASCII characters"))?
        .trim_matches([' ', '\t']);
    let key = if text.starts_with('"') {
        unquoted(text)?
    } else {
        text.to_owned()
    };
    key.parse().map_err(|_| {
        invalid(
            "a key has 1 to 255 printable ASCII characters, quoted or bare, and not only spaces; a UUID is a good one",
        )
    })
}

fn unquoted(text: &str) -> Result<String, Problem> {
    let refused = || invalid("a key that begins with a quote must be a whole quoted string, as in \"8e03978e\"");
    let item: Item = Parser::new(text).parse().map_err(|_| refused())?;
    match item.bare_item {
        BareItem::String(content) if item.params.is_empty() => Ok(content.as_str().to_owned()),
        BareItem::String(_)
        | BareItem::Integer(_)
        | BareItem::Decimal(_)
        | BareItem::ByteSequence(_)
        | BareItem::Boolean(_)
        | BareItem::Token(_)
        | BareItem::Date(_)
        | BareItem::DisplayString(_) => Err(refused()),
    }
}

fn invalid(why: &str) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "idempotency-key-invalid",
        "Idempotency-Key can't be used",
        format!("Correct the Idempotency-Key header: {why}."),
    )
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(lines: &[&[u8]]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(NAME, HeaderValue::from_bytes(line).unwrap());
        }
        of(&headers)
            .map(|key| key.to_string())
            .map_err(|problem| problem.slug())
    }

    #[test]
    fn quoted_and_bare_are_one_key() {
        assert_eq!(read(&[b"\"8e03\""]), Ok("8e03".into()));
        assert_eq!(read(&[b"8e03"]), Ok("8e03".into()));
        assert_eq!(read(&[br#""a\"b\\c""#]), Ok(r#"a"b\c"#.into()));
    }

    #[test]
    fn commas_spaces_and_semicolons_are_part_of_a_bare_key() {
        for key in ["a,1", "a 1", "a;a=1", "a\"b"] {
            assert_eq!(read(&[key.as_bytes()]), Ok(key.into()));
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_nothing_is_cut() {
        let (most, more) = ("k".repeat(255), "k".repeat(256));
        assert_eq!(read(&[most.as_bytes()]), Ok(most.clone()));
        for line in [
            b"" as &[u8],
            b"   ",
            b"\"\"",
            b"\"abc",
            b"\"a\" b",
            b"\"a\";x=1",
            b"a\tb",
            b"sch\xfcssel",
            more.as_bytes(),
        ] {
            assert_eq!(read(&[line]), Err("idempotency-key-invalid"), "{line:?}");
        }
        assert_eq!(read(&[]), Err("idempotency-key-missing"));
        assert_eq!(read(&[b"a", b"b"]), Err("idempotency-key-invalid"));
        assert_eq!(read(&[b"a", b"a"]), Err("idempotency-key-invalid"));
    }
}
