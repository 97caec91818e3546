//! What a message says, and what makes it unreadable.

use super::*;
use crate::domain::{AttemptNumber, JobId};
use uuid::Uuid;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn outgoing() -> Outgoing {
    Outgoing {
        attempt: AttemptId::new(JobId::from_uuid(Uuid::from_u128(45)), AttemptNumber::FIRST),
        provider: "primary".parse().unwrap(),
        traceparent: Some(TRACE.into()),
    }
}

#[test]
fn what_is_written_is_read() {
    let outgoing = outgoing();
    let (properties, body) = outgoing.encode();
    let read = AttemptMessage::parse(&properties, &body).unwrap();
    assert_eq!(read.attempt, outgoing.attempt);
    assert_eq!(read.traceparent, outgoing.traceparent);
    assert_eq!(*properties.delivery_mode(), Some(2));
}

#[test]
fn an_unknown_version_or_none_is_unreadable() {
    let (properties, body) = outgoing().encode();
    assert_eq!(
        AttemptMessage::parse(&properties.clone().with_type("attempt.v2".into()), &body),
        Err(Unreadable::UnknownType("attempt.v2".into()))
    );
    assert_eq!(
        AttemptMessage::parse(&BasicProperties::default(), &body),
        Err(Unreadable::NoType)
    );
}

#[test]
fn a_body_that_does_not_name_an_attempt_is_unreadable() {
    let (properties, _) = outgoing().encode();
    for body in [
        "",
        "attempt",
        "[]",
        "{}",
        r#"{"attempt_id":45}"#,
        r#"{"attempt_id":"45"}"#,
        r#"{"attempt_id":"a","attempt_id":"a"}"#,
        "{\"attempt_id\":\"\u{0}\"}",
    ] {
        let read = AttemptMessage::parse(&properties, body.as_bytes());
        assert!(matches!(read, Err(Unreadable::Body(_))), "{body}: {read:?}");
    }
    assert!(AttemptMessage::parse(&properties, b"\xff").is_err());
}

#[test]
fn a_field_that_a_later_writer_added_is_left_alone() {
    let (properties, body) = outgoing().encode();
    let body = String::from_utf8(body).unwrap().replace('}', r#","more":1}"#);
    assert!(AttemptMessage::parse(&properties, body.as_bytes()).is_ok());
}

#[test]
fn properties_that_disagree_with_the_body_are_unreadable() {
    let (properties, body) = outgoing().encode();
    for (changed, property) in [
        (properties.clone().with_message_id("45.1".into()), "message_id"),
        (properties.clone().with_correlation_id("45".into()), "correlation_id"),
    ] {
        let read = AttemptMessage::parse(&changed, &body);
        assert!(
            matches!(&read, Err(Unreadable::Disagree { property: found, .. }) if *found == property),
            "{read:?}"
        );
    }
    let bare = BasicProperties::default().with_type(TYPE.into());
    assert_eq!(AttemptMessage::parse(&bare, &body), Err(Unreadable::NoMessageId));
}

#[test]
fn a_traceparent_that_is_not_one_is_left_out() {
    for bad in [
        "",
        "x",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-\r\n-0-0",
    ] {
        let (properties, body) = Outgoing {
            traceparent: Some(bad.into()),
            ..outgoing()
        }
        .encode();
        assert_eq!(
            AttemptMessage::parse(&properties, &body).unwrap().traceparent,
            None,
            "{bad:?}"
        );
    }
}
