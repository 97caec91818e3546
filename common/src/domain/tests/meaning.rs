//! Design §2, "What an answer means": a test for each row.

use std::time::Duration;

use bytes::Bytes;

use super::super::{Answer, FailureKind, Meaning, RetryAfter, Stop, WireSeen};
use super::at;

fn status(status: u16, own_shape: bool) -> Meaning {
    WireSeen::ErrorStatus {
        status,
        own_shape,
        retry_after: None,
        detail: "it says so".to_owned(),
        raw: Bytes::from_static(b"body"),
    }
    .meaning()
}

fn kind(meaning: &Meaning) -> Option<FailureKind> {
    match meaning {
        Meaning::Failed(definite) => Some(definite.kind),
        Meaning::Unknown { .. } => None,
        Meaning::Answer(_) => panic!("no answer was expected"),
    }
}

fn finished(stop: Stop) -> Meaning {
    WireSeen::Finished {
        stop,
        answer: Answer {
            text: Bytes::from_static(b"{}"),
            served_model: None,
            usage: None,
        },
    }
    .meaning()
}

#[test]
fn what_never_left_is_unreachable() {
    let seen = WireSeen::NotSent {
        detail: "refused".to_owned(),
    };
    assert_eq!(kind(&seen.meaning()), Some(FailureKind::Unreachable));
}

#[test]
fn silence_and_broken_connections_are_unknown() {
    let detail = || "reset".to_owned();
    for seen in [
        WireSeen::NoAnswer { detail: detail() },
        WireSeen::UnendedStream { detail: detail() },
    ] {
        assert_eq!(seen.meaning(), Meaning::Unknown { reason: detail() });
    }
}

#[test]
fn a_gateways_status_is_unknown_whatever_its_body_looks_like() {
    for code in [502, 504, 520, 521, 522, 523, 524, 525, 526, 527] {
        for own_shape in [true, false] {
            assert_eq!(kind(&status(code, own_shape)), None, "{code} {own_shape}");
        }
    }
}

#[test]
fn every_5xx_without_the_providers_own_shape_is_unknown() {
    for code in 500..=599 {
        assert_eq!(kind(&status(code, false)), None, "{code}");
    }
}

#[test]
fn the_providers_own_5xx_are_definite() {
    assert_eq!(kind(&status(500, true)), Some(FailureKind::ProviderError));
    assert_eq!(kind(&status(501, true)), Some(FailureKind::ProviderError));
    assert_eq!(kind(&status(503, true)), Some(FailureKind::Overloaded));
    assert_eq!(kind(&status(529, true)), Some(FailureKind::Overloaded));
}

#[test]
fn any_429_is_rate_limited_and_keeps_its_hint() {
    for own_shape in [true, false] {
        assert_eq!(kind(&status(429, own_shape)), Some(FailureKind::RateLimited));
    }
    let hint = RetryAfter::of(Duration::from_secs(3));
    let seen = WireSeen::ErrorStatus {
        status: 429,
        own_shape: true,
        retry_after: Some(hint),
        detail: String::new(),
        raw: Bytes::new(),
    };
    let Meaning::Failed(definite) = seen.meaning() else {
        panic!("a failure was expected");
    };
    assert_eq!(definite.retry_after, Some(hint));
}

#[test]
fn every_other_3xx_and_4xx_is_rejected() {
    for code in (300..=499).filter(|code| *code != 429) {
        for own_shape in [true, false] {
            assert_eq!(
                kind(&status(code, own_shape)),
                Some(FailureKind::Rejected),
                "{code} {own_shape}"
            );
        }
    }
}

#[test]
fn a_success_without_an_answer_is_the_providers_error_and_its_body_is_kept() {
    let raw = Bytes::from_static(b"<html>");
    let seen = WireSeen::EmptySuccess {
        detail: "a page".to_owned(),
        raw: raw.clone(),
    };
    let Meaning::Failed(definite) = seen.meaning() else {
        panic!("a failure was expected");
    };
    assert_eq!((definite.kind, definite.raw), (FailureKind::ProviderError, Some(raw)));
}

#[test]
fn how_the_model_stopped_decides_what_its_answer_is() {
    assert!(matches!(finished(Stop::Complete), Meaning::Answer(_)));
    assert_eq!(kind(&finished(Stop::Length)), Some(FailureKind::Truncated));
    assert_eq!(kind(&finished(Stop::Refusal)), Some(FailureKind::Refused));
}

#[test]
fn retry_after_is_seconds_or_a_date_capped_and_nonsense_is_ignored() {
    let cap = Duration::from_secs(900);
    let read = |text: &str| RetryAfter::parse(text, at(0), cap).map(RetryAfter::pause);
    assert_eq!(read("3"), Some(Duration::from_secs(3)));
    assert_eq!(read(" 7 "), Some(Duration::from_secs(7)));
    assert_eq!(read("0"), Some(Duration::ZERO));
    assert_eq!(read("86400"), Some(cap));
    assert_eq!(read("99999999999999999999999999"), Some(cap));
    let date = |seconds| httpdate::fmt_http_date(at(seconds).into());
    assert_eq!(read(&date(30)), Some(Duration::from_secs(30)));
    assert_eq!(read(&date(100_000)), Some(cap));
    for nonsense in ["", "-1", "soon", "1.5", "NaN", "1e3", &date(-30)] {
        assert_eq!(read(nonsense), None, "{nonsense:?}");
    }
}
