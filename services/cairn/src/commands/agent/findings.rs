//! Faults and warnings, as compilers print them: `agents/a.md:4: error: maxTurns is "many" (allowed: …)`.

use crate::ui::style::Style;
use cairn_agents::Fault;
use cairn_rpc::text::escape;

/// A fault, for which the file cannot be used.
pub(super) fn error(path: &str, fault: &Fault, style: Style) -> String {
    line(path, &style.bad("error"), fault)
}

/// Something that has no effect, or another one than a person may think.
pub(super) fn warning(path: &str, fault: &Fault, style: Style) -> String {
    line(path, &style.asks("warning"), fault)
}

fn line(path: &str, severity: &str, fault: &Fault) -> String {
    let path = escape(path);
    let place = match fault.line {
        0 => path.into_owned(),
        line => format!("{path}:{line}"),
    };
    let whole = Fault {
        line: 0,
        ..fault.clone()
    };
    format!("{place}: {severity}: {}", escape(&whole.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_place() {
        let mut fault = Fault {
            line: 4,
            field: "maxTurns".to_owned(),
            problem: "is \"many\"".to_owned(),
            allowed: "a whole number".to_owned(),
        };
        let plain = Style::new(false);
        assert_eq!(
            error("agents/a.md", &fault, plain),
            "agents/a.md:4: error: maxTurns is \"many\" (allowed: a whole number)"
        );
        fault.line = 0;
        fault.allowed.clear();
        assert_eq!(
            warning("a\n.md", &fault, plain),
            "a\\n.md: warning: maxTurns is \"many\""
        );
    }
}
