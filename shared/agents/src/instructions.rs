//! Instructions of a folder for all agents: `AGENTS.md`, or `CLAUDE.md` where there is none.

use crate::document::{normalised, trimmed};
use crate::fault::{AgentError, Fault, Parsed};

/// Most bytes of instructions that count.
pub const MAX_INSTRUCTIONS: usize = 32 * 1024;
/// Most bytes of a file that has instructions.
pub const MAX_INSTRUCTIONS_FILE: usize = 1024 * 1024;

/// The files that have instructions; the first one that there is counts.
pub const INSTRUCTION_FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Reads instructions: Markdown as it stands, without blank lines around it.
///
/// Of more than [`MAX_INSTRUCTIONS`] bytes the first lines count, with a warning. Files that a line
/// `@other.md` would include in other programs are not read.
///
/// # Errors
/// More than [`MAX_INSTRUCTIONS_FILE`] bytes, and what is no text.
pub fn parse(path: &str, text: &str) -> Result<Parsed<String>, AgentError> {
    if text.len() > MAX_INSTRUCTIONS_FILE {
        let problem = format!("has {} bytes", text.len());
        let allowed = format!("at most {MAX_INSTRUCTIONS_FILE}");
        return Err(AgentError::one(path, Fault::new(0, "", problem, allowed)));
    }
    let whole = normalised(text).map_err(|fault| AgentError::one(path, fault))?;
    let mut warnings = Vec::new();
    let mut text = trimmed(&whole);
    if text.len() > MAX_INSTRUCTIONS {
        let cut = first_lines(text);
        let problem = format!(
            "has {} bytes, of which the first {} count",
            text.len(),
            cut.len()
        );
        warnings.push(Fault::new(0, "", problem, ""));
        text = cut;
    }
    for (line, number) in whole.lines().zip(1..) {
        if is_include(line) {
            let problem = "the file that the line includes is not read";
            warnings.push(Fault::new(number, "", problem, ""));
        }
    }
    Ok(Parsed {
        value: text.to_owned(),
        warnings,
    })
}

/// The lines that are not too long together; of a first line that is too long, its beginning.
fn first_lines(text: &str) -> &str {
    let head = &text[..text.floor_char_boundary(MAX_INSTRUCTIONS)];
    match head.rfind('\n') {
        Some(end) => head[..end].trim_end(),
        None => head,
    }
}

/// Whether a line is `@` and a path.
fn is_include(line: &str) -> bool {
    let path = line.trim().strip_prefix('@').unwrap_or_default();
    path.contains(['/', '.']) && !path.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Vec<String>) {
        let parsed = parse("AGENTS.md", text).unwrap();
        let warnings = parsed.warnings.iter().map(ToString::to_string);
        (parsed.value, warnings.collect())
    }

    #[test]
    fn instructions_are_the_text_as_it_stands() {
        let (text, warnings) = read("\u{feff}\r\n# Rules\r\n\r\n---\r\na: b\r\n---\r\n");
        assert_eq!(text, "# Rules\n\n---\na: b\n---");
        assert!(warnings.is_empty());
        assert_eq!(read(" \n").0, "");
    }

    #[test]
    fn of_a_long_text_the_first_lines_count() {
        let line = "é".repeat(20) + "\n";
        let (text, warnings) = read(&line.repeat(1000));
        assert!(text.len() <= MAX_INSTRUCTIONS && text.len() > MAX_INSTRUCTIONS - line.len());
        assert!(text.lines().all(|it| it.len() == 40));
        let expected = format!("has 40999 bytes, of which the first {} count", text.len());
        assert_eq!(warnings, [expected]);
        // One line that is too long is cut between two characters.
        assert_eq!(read(&"é".repeat(20_000)).0.len(), MAX_INSTRUCTIONS);
        let error = parse("AGENTS.md", &"a".repeat(MAX_INSTRUCTIONS_FILE + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "AGENTS.md: has 1048577 bytes (allowed: at most 1048576)"
        );
    }

    #[test]
    fn what_a_line_includes_is_not_read_and_said() {
        let (_, warnings) = read("\nRead @docs/a.md first.\n@AGENTS.md\n@ada\n");
        assert_eq!(
            warnings,
            ["line 3: the file that the line includes is not read"]
        );
    }
}
