//! The text of an agent, and its faults for the client that sent it.

use crate::agents::parse;
use cairn_agents::agent::AgentFile;
use cairn_agents::document::MAX_FILE;
use cairn_agents::{Fault, Parsed, is_name};
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_rpc::{ErrorKind, RpcError, check_required_text};

const NAME_RULE: &str = "1 to 64 letters, digits, '.', '_' and '-', of which the first is a letter or a \
    digit";

/// # Errors
/// InvalidArgument, unless an agent may have the name.
pub(super) fn check_name(name: &str) -> Result<(), RpcError> {
    let refuse = |problem: &str, reason| {
        let error = RpcError::invalid("name", problem).allowed(NAME_RULE);
        Err(error.reason(reason))
    };
    match name {
        "" => refuse("is empty", "FIELD_MISSING"),
        name if is_name(name) => Ok(()),
        _ => refuse("is no name of an agent", "ID_INVALID"),
    }
}

/// Reads a source that a client sent.
///
/// # Errors
/// InvalidArgument that names the name or each fault of the source.
pub(super) fn check(name: Option<&str>, source: &str) -> Result<Parsed<AgentFile>, RpcError> {
    if let Some(name) = name {
        check_name(name)?;
    }
    check_required_text("source", source, MAX_FILE)?;
    let parsed = parse(name.unwrap_or_default(), source).map_err(|faults| refused(&faults))?;
    if parsed.value.name == DEFAULT_AGENT {
        let error = RpcError::invalid("name", "is \"default\", the name of the default agent");
        return Err(error.allowed("another name"));
    }
    Ok(parsed)
}

fn refused(faults: &[Fault]) -> RpcError {
    let error = RpcError::new(ErrorKind::InvalidArgument, "");
    let error = faults.iter().fold(error, |error, fault| {
        let problem = Fault {
            allowed: String::new(),
            ..fault.clone()
        };
        let error = error.and_invalid("source", problem.to_string());
        error.allowed(&fault.allowed)
    });
    let count = faults.len().to_string();
    error.reason("BAD_AGENT").meta("faults", count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_of_a_source_is_a_violation_with_its_line() {
        let source = "---\nname: a\nmaxTurns: many\nhidden: 1\n---\nP";
        let error = check(None, source).unwrap_err();
        assert_eq!(
            error.to_string(),
            "source line 3: maxTurns is \"many\" (allowed: a whole number from 1 to 100000); source line 4: \
             hidden is 1 (allowed: true or false)"
        );
        assert_eq!(error.reason_name(), "BAD_AGENT");
        assert_eq!(error.metadata("faults"), Some("2"));
        let violation = &error.violations()[0];
        assert_eq!(violation.field, "source");
        assert_eq!(violation.allowed, "a whole number from 1 to 100000");
    }

    #[test]
    fn the_name_of_the_request_counts_and_else_that_of_the_source() {
        let name = |name, source| check(name, source).map(|parsed| parsed.value.name);
        let source = "---\nname: a\n---\nP";
        assert_eq!(name(None, source).unwrap(), "a");
        assert_eq!(name(Some("b"), source).unwrap(), "b");
        assert_eq!(name(Some("b.md"), "P").unwrap(), "b.md");
        let error = name(None, "P").unwrap_err();
        let wanted = format!("source name is missing (allowed: {NAME_RULE})");
        assert_eq!(error.to_string(), wanted);
        for wrong in ["", "a b", ".a", "default"] {
            let error = name(Some(wrong), "P").unwrap_err();
            assert_eq!(error.violations()[0].field, "name", "{wrong:?}");
        }
    }

    #[test]
    fn a_source_has_text_and_at_most_64_kib() {
        for wrong in ["", " \n", "a\0", &"a".repeat(MAX_FILE + 1)] {
            let error = check(Some("a"), wrong).unwrap_err();
            assert_eq!(error.violations()[0].field, "source");
        }
        assert!(check(Some("a"), &"a".repeat(MAX_FILE)).is_ok());
    }
}
