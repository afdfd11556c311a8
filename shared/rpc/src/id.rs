//! Checks of ids and texts that come from clients.
//!
//! Each check names the field and says what is allowed. Ids are ASCII, so that two that look
//! alike are alike, and hold no character that means something in a key, a path or a shell.

use crate::error::RpcError;

/// What [`check_id`] admits, in words.
pub const ID_RULE: &str =
    "1 to 63 characters of a-z, 0-9, _ and -, beginning with a letter or digit";
/// What [`check_session_id`] admits, in words.
pub const SESSION_ID_RULE: &str =
    "1 to 128 characters of A-Z, a-z, 0-9, _, . and -, beginning with a letter or digit";
/// What [`check_request_id`] admits, in words.
pub const REQUEST_ID_RULE: &str = "1 to 128 printable ASCII characters without spaces";

/// A name that somebody gives: namespaces, agents, contexts, resources.
///
/// # Errors
/// InvalidArgument naming `field`, unless the value matches `[a-z0-9][a-z0-9_-]{0,62}`.
pub fn check_id(field: &str, value: &str) -> Result<(), RpcError> {
    let inner = |b: u8| is_lower(b) || matches!(b, b'_' | b'-');
    check(field, value, ID_RULE, 63, is_lower, inner)
}

/// The id of a session, chosen by a client or made by the server.
///
/// # Errors
/// InvalidArgument naming `field`, unless the value matches `[A-Za-z0-9][A-Za-z0-9_.-]{0,127}`.
pub fn check_session_id(field: &str, value: &str) -> Result<(), RpcError> {
    let first = |b: u8| b.is_ascii_alphanumeric();
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    check(field, value, SESSION_ID_RULE, 128, first, inner)
}

/// The id by which a client's repeated request is known.
///
/// # Errors
/// InvalidArgument naming `field`, unless the value is 1 to 128 printable ASCII characters
/// without spaces.
pub fn check_request_id(field: &str, value: &str) -> Result<(), RpcError> {
    let graphic = |b: u8| b.is_ascii_graphic();
    check(field, value, REQUEST_ID_RULE, 128, graphic, graphic)
}

/// A text that may be empty.
///
/// # Errors
/// InvalidArgument naming `field`, if the text has more than `max_bytes` bytes or holds NUL.
pub fn check_text(field: &str, value: &str, max_bytes: usize) -> Result<(), RpcError> {
    let allowed = || format!("at most {max_bytes} bytes of UTF-8 without NUL");
    if value.len() > max_bytes {
        let problem = format!("has {} bytes", value.len());
        return Err(RpcError::invalid(field, problem)
            .allowed(allowed())
            .reason("TEXT_TOO_LONG"));
    }
    if value.contains('\0') {
        return Err(RpcError::invalid(field, "holds NUL").allowed(allowed()));
    }
    Ok(())
}

/// A text that must say something.
///
/// # Errors
/// As [`check_text`], and if the text is empty or blank.
pub fn check_required_text(field: &str, value: &str, max_bytes: usize) -> Result<(), RpcError> {
    if value.trim().is_empty() {
        return Err(RpcError::invalid(field, "is empty")
            .allowed(format!("1 to {max_bytes} bytes, not only white space"))
            .reason("FIELD_MISSING"));
    }
    check_text(field, value, max_bytes)
}

fn check(
    field: &str,
    value: &str,
    rule: &str,
    max: usize,
    first: impl Fn(u8) -> bool,
    inner: impl Fn(u8) -> bool,
) -> Result<(), RpcError> {
    let refuse = |problem: &str, reason| {
        Err(RpcError::invalid(field, problem)
            .allowed(rule)
            .reason(reason))
    };
    let Some((&head, rest)) = value.as_bytes().split_first() else {
        return refuse("is empty", "FIELD_MISSING");
    };
    if value.len() > max {
        return refuse(&format!("has {} bytes", value.len()), "ID_INVALID");
    }
    if !first(head) || !rest.iter().all(|&b| inner(b)) {
        return refuse("holds a character that is not allowed", "ID_INVALID");
    }
    Ok(())
}

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: [&str; 24] = [
        "",
        " ",
        "a b",
        "a\n",
        "\ta",
        "a\0",
        "а",
        "é",
        "e\u{301}",
        "ａ",
        "a\u{200b}",
        "\u{202e}a",
        "a/b",
        "a:b",
        "{a}",
        "a*",
        "a?b c",
        "../a b",
        "-a b",
        "_ a",
        "a\u{7f}",
        "a b\u{85}",
        "¹",
        "a\u{2028}b",
    ];

    #[test]
    fn ids_are_lower_case_names() {
        for good in ["a", "0", "a-b_c", "9lives", &"x".repeat(63)] {
            assert!(check_id("id", good).is_ok(), "{good}");
        }
        for bad in NEVER
            .into_iter()
            .chain(["A", "-a", "_a", "a.b", "~", &"x".repeat(64)])
        {
            assert!(check_id("id", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn session_ids_may_have_capitals_and_dots() {
        for good in ["a", "S-1.2_3", "0", &"X".repeat(128)] {
            assert!(check_session_id("id", good).is_ok(), "{good}");
        }
        for bad in NEVER
            .into_iter()
            .chain([".", "..", ".a", "-a", &"x".repeat(129)])
        {
            assert!(check_session_id("id", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn request_ids_are_printable() {
        for good in ["a", "{a}:b/c*", "~!", &"#".repeat(128)] {
            assert!(check_request_id("id", good).is_ok(), "{good}");
        }
        for bad in ["", " ", "a b", "a\n", "é", "a\u{7f}", &"x".repeat(129)] {
            assert!(check_request_id("id", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_what_is_allowed() {
        let error = check_session_id("session_id", "a/b").unwrap_err();
        let violation = &error.violations()[0];
        assert_eq!(violation.field, "session_id");
        assert_eq!(violation.allowed, SESSION_ID_RULE);
        assert_eq!(error.reason_name(), "ID_INVALID");
        let error = check_id("agent", "").unwrap_err();
        assert_eq!(error.reason_name(), "FIELD_MISSING");
    }

    #[test]
    fn texts_are_limited_in_bytes() {
        assert!(check_text("goal", "", 3).is_ok());
        assert!(check_text("goal", "äa", 3).is_ok());
        assert!(check_text("goal", "ää", 3).is_err());
        assert!(check_text("goal", "\0", 3).is_err());
        assert!(check_required_text("goal", " \n", 3).is_err());
        assert!(check_required_text("goal", "go", 3).is_ok());
        let error = check_text("goal", "long", 3).unwrap_err();
        assert_eq!(
            error.to_string(),
            "goal has 4 bytes (allowed: at most 3 bytes of UTF-8 without NUL)"
        );
    }
}
