//! The names that tools have in other programs.

use cairn_engine::decide::STATE_TOOLS;

/// The tool that gives an agent a task.
pub(crate) const DELEGATE: &str = "delegate";

const READ: &[&str] = &["read_file"];
// One right in Cairn, because an edit can replace a whole file.
const WRITE: &[&str] = &["edit_file", "write_file"];
const SEARCH: &[&str] = &["search_files"];
const LIST: &[&str] = &["list_files"];
const FIND: &[&str] = &["list_files", "search_files"];
const SHELL: &[&str] = &["shell_exec"];
const PAGES: &[&str] = &["fetch_page"];
const WEB: &[&str] = &["fetch_page", "web_search"];
const TASKS: &[&str] = &[DELEGATE];
const PEOPLE: &[&str] = &["ask_person"];
const SKILLS: &[&str] = &["read_skill"];
/// For what Cairn has no tool, or has it without one.
const NONE: &[&str] = &[];

/// Names of Claude Code, opencode, VS Code and Copilot in lower case, and what they are here.
const FOREIGN: &[(&str, &[&str])] = &[
    ("agent", TASKS),
    ("apply_patch", WRITE),
    ("askuserquestion", PEOPLE),
    ("bash", SHELL),
    ("bashoutput", NONE),
    ("codebase", SEARCH),
    ("create", WRITE),
    ("create_file", WRITE),
    ("createfile", WRITE),
    ("custom-agent", TASKS),
    ("doom_loop", NONE),
    ("edit", WRITE),
    ("editfiles", WRITE),
    ("execute", SHELL),
    ("exitplanmode", NONE),
    ("external_directory", NONE),
    ("fetch", PAGES),
    ("filesearch", LIST),
    ("glob", LIST),
    ("grep", SEARCH),
    ("grep_search", SEARCH),
    ("killbash", NONE),
    ("killshell", NONE),
    ("list", LIST),
    ("listdirectory", LIST),
    ("listmcpresourcestool", NONE),
    ("ls", LIST),
    ("lsp", NONE),
    ("multiedit", WRITE),
    ("notebookedit", WRITE),
    ("notebookread", READ),
    ("patch", WRITE),
    ("powershell", SHELL),
    ("question", PEOPLE),
    ("read", READ),
    ("readfile", READ),
    ("readmcpresourcetool", NONE),
    ("replace_string_in_file", WRITE),
    ("run_in_terminal", SHELL),
    ("runcommands", SHELL),
    ("runinterminal", SHELL),
    ("runsubagent", TASKS),
    ("search", FIND),
    ("semantic_search", SEARCH),
    ("shell", SHELL),
    ("skill", SKILLS),
    ("slashcommand", NONE),
    ("task", TASKS),
    ("terminal", SHELL),
    ("textsearch", SEARCH),
    ("todo", NONE),
    ("todoread", NONE),
    ("todos", NONE),
    ("todowrite", NONE),
    ("view", READ),
    ("vscode", NONE),
    ("web", WEB),
    ("webfetch", PAGES),
    ("websearch", &["web_search"]),
    ("write", WRITE),
];

/// Sets of tools of VS Code, whose names stand before a slash.
const SETS: [&str; 9] = [
    "agent", "browser", "edit", "execute", "read", "search", "todo", "vscode", "web",
];

/// Tools of Cairn, beside the state tools.
const OWN: [&str; 14] = [
    "code_generation_tool",
    "delegate",
    "edit_file",
    "fetch_page",
    "http_get",
    "http_request",
    "list_files",
    "read_file",
    "read_skill",
    "report_generator",
    "search_files",
    "shell_exec",
    "web_search",
    "write_file",
];

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Every tool.
    Every,
    /// Tools of Cairn; none if it has no such tool.
    Tools(&'static [&'static str]),
    /// The tools that match.
    Pattern {
        pattern: String,
        /// Whether it is a tool of Cairn, or reads like one of a server.
        is_known: bool,
    },
}

pub(super) fn meaning(name: &str) -> Meaning {
    let pattern = |pattern: String, is_known| Meaning::Pattern { pattern, is_known };
    if matches!(name, "*" | "all") {
        return Meaning::Every;
    }
    // `mcp__server__tool`, and `mcp__server` for all tools of a server.
    if let Some(name) = name.strip_prefix("mcp__") {
        let name = if name.contains("__") {
            name.to_owned()
        } else {
            format!("{name}__*")
        };
        return pattern(name, true);
    }
    if let Some((before, tool)) = name.rsplit_once('/') {
        return match (is_set(before), of_other_program(tool)) {
            (true, _) if tool == "*" => {
                of_other_program(before).map_or(Meaning::Tools(NONE), Meaning::Tools)
            }
            (true, Some(tools)) => Meaning::Tools(tools),
            (true, None) => pattern(tool.to_owned(), false),
            (false, _) => pattern(format!("{before}__{tool}"), true),
        };
    }
    match of_other_program(name) {
        Some(tools) => Meaning::Tools(tools),
        None => pattern(name.to_owned(), is_own(name) || name.contains("__")),
    }
}

fn is_set(name: &str) -> bool {
    SETS.contains(&name)
}

/// The tools of Cairn that the name of a tool in Claude Code, opencode, VS Code or Copilot stands for; empty if Cairn
/// has no such tool. None for any other name.
pub fn of_other_program(name: &str) -> Option<&'static [&'static str]> {
    let row = FOREIGN
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    row.map(|(_, tools)| *tools)
}

fn is_own(name: &str) -> bool {
    let is_state_tool = || STATE_TOOLS.iter().any(|tool| tool.name == name);
    OWN.contains(&name) || is_state_tool()
}
