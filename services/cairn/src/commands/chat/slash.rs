//! The commands of a conversation: lines that begin with `/`.

use crate::commands::mode::ModeName;

/// A command of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slash {
    /// List the contexts of the session.
    Contexts,
    /// Continue in another context.
    Switch(String),
    /// Create a context and continue in it.
    NewContext(String),
    /// Show the agent of the context.
    Agent,
    /// Continue with another agent.
    SwitchAgent(String),
    /// Show the mode of the session.
    Mode,
    /// Set another mode.
    SetMode(ModeName),
    /// List session memory.
    Memory,
    /// Show what the session has used.
    Cost,
    /// Replace older messages by a summary that keeps this.
    Compact(String),
    /// Continue in a new session.
    Continue,
    /// List the commands.
    Help,
    /// Leave the conversation.
    Quit,
}

impl Slash {
    /// The name of a command that is not carried out while a turn or a compaction works.
    pub(super) fn waits_for_end(&self) -> Option<&'static str> {
        match self {
            Self::Compact(_) => Some("/compact"),
            Self::Continue => Some("/continue"),
            _ => None,
        }
    }
}

/// Command, arguments and meaning, as `/help` lists them.
pub(super) const COMMANDS: &[(&str, &str, &str)] = &[
    ("/context", "", "list the contexts of this session"),
    ("/context", "NAME", "continue in another context"),
    (
        "/context",
        "new NAME",
        "create a context and continue in it",
    ),
    ("/agent", "", "show the agent of this conversation"),
    (
        "/agent",
        "NAME",
        "continue with another agent, or with default",
    ),
    ("/mode", "", "show what the model does without asking"),
    ("/mode", "NAME", "set it: plan, ask or accept-edits"),
    ("/memory", "", "list what the session remembers"),
    ("/cost", "", "show the tokens and the cost of this session"),
    (
        "/compact",
        "[TEXT]",
        "replace older messages by a summary that keeps TEXT",
    ),
    (
        "/continue",
        "",
        "continue in a new session with the last turns",
    ),
    ("/help", "", "list the commands"),
    ("/quit", "", "leave; the session stays"),
];

/// Reads a line. `None` if it is a message for the model.
///
/// # Errors
/// What is wrong with the command, for people.
pub(super) fn parse(line: &str) -> Option<Result<Slash, String>> {
    let line = line.trim();
    line.starts_with('/').then(|| parse_command(line))
}

fn parse_command(line: &str) -> Result<Slash, String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let arguments: Vec<&str> = words.collect();
    let rest = line.strip_prefix(name).unwrap_or_default().trim();
    match (name, arguments.as_slice()) {
        ("/context", []) => Ok(Slash::Contexts),
        ("/context", ["new"]) => Err("/context new needs a name".to_owned()),
        ("/context", ["new", name]) => Ok(Slash::NewContext((*name).to_owned())),
        ("/context", [name]) => Ok(Slash::Switch((*name).to_owned())),
        ("/agent", []) => Ok(Slash::Agent),
        ("/agent", [name]) => Ok(Slash::SwitchAgent((*name).to_owned())),
        ("/mode", []) => Ok(Slash::Mode),
        ("/mode", [name]) => {
            let unknown = || format!("there is no mode {name}; there are {}", ModeName::all());
            ModeName::named(name)
                .map(Slash::SetMode)
                .ok_or_else(unknown)
        }
        ("/memory", []) => Ok(Slash::Memory),
        ("/cost", []) => Ok(Slash::Cost),
        ("/compact", _) => Ok(Slash::Compact(rest.to_owned())),
        ("/continue", []) => Ok(Slash::Continue),
        ("/help", []) => Ok(Slash::Help),
        ("/quit", []) => Ok(Slash::Quit),
        (name, _) if names().contains(&name) => {
            let forms = COMMANDS.iter().filter(|(known, ..)| *known == name);
            let forms: Vec<String> = forms
                .map(|(name, arguments, _)| format!("{name} {arguments}").trim_end().to_owned())
                .collect();
            Err(format!("{name} is used as: {}", forms.join(", ")))
        }
        (name, _) => Err(format!(
            "there is no command {name}; there are {}",
            names().join(", ")
        )),
    }
}

/// The names of all commands, each once.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = COMMANDS.iter().map(|(name, ..)| *name).collect();
    names.dedup();
    names
}

/// The lines of `/help`.
pub(super) fn help() -> Vec<String> {
    let commands = COMMANDS.iter().map(|(name, arguments, meaning)| {
        let form = format!("{name} {arguments}");
        format!("  {form:<19} {meaning}")
    });
    let keys = [
        ("\\ and Enter", "begin another line of the same message"),
        ("Ctrl-C", "cancel the running turn, or clear the line"),
        ("Ctrl-D", "leave"),
    ];
    let keys = keys
        .iter()
        .map(|(key, meaning)| format!("  {key:<19} {meaning}"));
    let steering = "  A line that you enter while a turn runs is read by the model before it ends.";
    commands.chain(keys).chain([steering.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_their_arguments() {
        let cases = [
            ("/context", Slash::Contexts),
            ("  /context  draft ", Slash::Switch("draft".to_owned())),
            ("/context new draft", Slash::NewContext("draft".to_owned())),
            ("/agent", Slash::Agent),
            (
                " /agent reviewer",
                Slash::SwitchAgent("reviewer".to_owned()),
            ),
            ("/mode", Slash::Mode),
            ("/mode  plan", Slash::SetMode(ModeName::Plan)),
            ("/mode accept-edits", Slash::SetMode(ModeName::AcceptEdits)),
            ("/memory", Slash::Memory),
            ("/cost", Slash::Cost),
            ("/compact", Slash::Compact(String::new())),
            (
                "/compact  the port,  and why ",
                Slash::Compact("the port,  and why".to_owned()),
            ),
            ("/continue", Slash::Continue),
            ("/help", Slash::Help),
            ("/quit", Slash::Quit),
        ];
        for (line, want) in cases {
            assert_eq!(parse(line), Some(Ok(want)), "{line}");
        }
    }

    #[test]
    fn messages_are_no_commands() {
        for line in ["", "hello", "what is /context?", "a / b"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn help_has_every_command_and_so_has_the_error_about_an_unknown_one() {
        let unknown = ["/compactness", "/agents x", "/", "/etc/hosts"];
        let wrong = [
            "/context new",
            "/context a b",
            "/agent a b",
            "/mode all",
            "/quit now",
        ];
        let errors = [&unknown[..], &wrong].concat().into_iter().map(|line| {
            let error = parse(line).unwrap().unwrap_err();
            format!("--- {line}\n{error}\n")
        });
        let help = help();
        assert!(help.iter().all(|line| line.len() < 80), "{help:?}");
        for name in names() {
            assert!(help.concat().contains(name), "{name}: {help:?}");
        }
        let text = format!(
            "--- help\n{}\n{}",
            help.join("\n"),
            errors.collect::<String>()
        );
        insta::assert_snapshot!("slash_commands", text);
    }
}
