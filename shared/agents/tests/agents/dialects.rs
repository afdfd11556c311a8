//! One file of each dialect and shape: what it says, and what has no effect.

use crate::{answer, lines, list};
use cairn_agents::agent::{self, AgentFile, Effort, Mode};
use cairn_agents::{AgentBudgets, AgentCompaction, CairnFields, Tools};
use cairn_engine::command::WhenFull;
use cairn_engine::rules::Answer;
use std::collections::BTreeMap;

fn check(path: &str, text: &str, expected: &AgentFile, warnings: &[&str]) {
    let parsed = agent::parse(path, text).unwrap();
    assert_eq!(&parsed.value, expected);
    assert_eq!(lines(&parsed.warnings), warnings);
    // A checkout on Windows is the same agent, with the same messages.
    let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let again = agent::parse(path, &windows).unwrap();
    assert_eq!(again, parsed);
    assert_eq!(again.value.digest(), expected.digest());
    // All patterns of a file that loads can be used.
    answer(expected, "read_file");
}

#[test]
fn claude_code_with_a_text_of_commas() {
    let text = include_str!("../files/claude-comma.md");
    let expected = AgentFile {
        description: "Use this agent when a release is near. Examples: user: \"What changed?\" assistant: \"I \
            ask release-notes.\""
            .to_owned(),
        prompt: "You write release notes for people who use the program.\n\nGroup what changed by what a \
            reader can do with it."
            .to_owned(),
        model: vec!["sonnet".to_owned()],
        tools: Tools::Only(list(
            "list_files read_file search_files shell_exec tracker__search_issues",
        )),
        denied: list("fetch_page"),
        ask: list("shell_exec"),
        max_turns: Some(30),
        ..AgentFile::named("release-notes")
    };
    let warnings = [
        "line 3: description is no YAML without quotes, and is read as it stands",
        "line 4: tools limits calls by \"Bash(git log:*)\", which Cairn does not know: each call of \
         shell_exec asks",
    ];
    check(".claude/agents/notes.md", text, &expected, &warnings);
}

#[test]
fn claude_code_with_lists() {
    let text = include_str!("../files/claude-list.md");
    let expected = AgentFile {
        description:
            "Reviews changes of database schemas.\n\nUse it after a migration was written."
                .to_owned(),
        prompt: "Read the migration and the tables that it touches.".to_owned(),
        tools: Tools::Only(list("delegate edit_file postgres__* read_file write_file")),
        effort: Some(Effort::High),
        skills: Some(list("sql-style migrations")),
        agents: Some(list("backup-checker migration-runner")),
        mcp_servers: list("audit postgres"),
        ..AgentFile::named("schema-reviewer")
    };
    let warnings = [
        "line 13: permissionMode has no effect: only the operator's rules let calls pass without a question",
        "line 17: mcpServers has settings of servers, of which only the names count: the operator's settings \
         start servers",
        "line 21: hooks has no effect: hooks come from the operator's settings, and an agent names them",
    ];
    check(
        ".claude/agents/schema-reviewer.md",
        text,
        &expected,
        &warnings,
    );
}

#[test]
fn opencode_with_a_map_and_permissions() {
    let text = include_str!("../files/opencode-permission.md");
    let expected = AgentFile {
        description: "Looks for security holes and changes nothing".to_owned(),
        prompt: "Report each hole with its file, its line and a way to close it.".to_owned(),
        model: list("anthropic/claude-sonnet-4-5"),
        denied: list("edit_file fetch_page write_file"),
        ask: list("shell_exec"),
        temperature_milli: Some(100),
        mode: Mode::Subagent,
        agents: Some(list("dependency-checker")),
        ..AgentFile::named("security")
    };
    let warnings = [
        "line 11: permission.bash has several answers by arguments, which Cairn does not know: each call asks",
    ];
    check(".opencode/agent/security.md", text, &expected, &warnings);
}

#[test]
fn opencode_with_steps_and_a_prompt() {
    let text = include_str!("../files/opencode-steps.md");
    let expected = AgentFile {
        description: "Finds duplicates among issues".to_owned(),
        prompt: "Search for issues that describe the same fault.".to_owned(),
        tools: Tools::Only(list("read_file tracker_*")),
        max_turns: Some(12),
        mode: Mode::Primary,
        is_hidden: true,
        ..AgentFile::named("duplicates")
    };
    let warnings =
        ["line 10: tools has \"tracker_*\", which is no tool of Cairn: it is kept as a pattern"];
    check(".opencode/agents/duplicates.md", text, &expected, &warnings);
    assert_eq!(answer(&expected, "tracker__search"), Answer::Allow);
    assert_eq!(answer(&expected, "write_file"), Answer::Deny);
}

#[test]
fn copilot_with_a_list_of_models() {
    let text = include_str!("../files/copilot.agent.md");
    let metadata = [("team", "quality"), ("version", "1.2")];
    let expected = AgentFile {
        title: Some("Test Gap Finder".to_owned()),
        description: "Finds code that no test reaches".to_owned(),
        prompt: "# Test gaps\n\nList each function that no test reaches.".to_owned(),
        model: ["GPT-5.2", "Claude Sonnet 4.5"].map(str::to_owned).to_vec(),
        tools: Tools::Only(list(
            "edit_file github__* list_files problems search_files shell_exec write_file",
        )),
        mode: Mode::Primary,
        mcp_servers: list("github"),
        metadata: BTreeMap::from(metadata.map(|(name, value)| (name.to_owned(), value.to_owned()))),
        ..AgentFile::named("copilot")
    };
    let warnings = [
        "line 2: name is \"Test Gap Finder\", so the agent has the name of its file, copilot",
        "line 4: argument-hint is no YAML without quotes, and is read as it stands",
        "line 6: tools has \"read/problems\", which is no tool of Cairn: it is kept as a pattern",
        "line 10: handoffs has no effect in Cairn",
        "line 14: mcp-servers has settings of servers, of which only the names count: the operator's \
         settings start servers",
    ];
    check(
        ".github/agents/copilot.agent.md",
        text,
        &expected,
        &warnings,
    );
}

#[test]
fn markdown_without_front_matter() {
    let text = include_str!("../files/plain.md");
    let expected = AgentFile {
        prompt: "# A reviewer\n\nRead the change, and say what a reader will not understand.\n\n---\n\nNever \
            praise."
            .to_owned(),
        ..AgentFile::named("reviewer")
    };
    check(".cairn/agents/reviewer.md", text, &expected, &[]);
}

#[test]
fn all_that_cairn_has() {
    let text = include_str!("../files/cairn.md");
    let expected = AgentFile {
        description: "Answers questions from the web, with sources".to_owned(),
        prompt: "Answer with at most five sentences, and name the source of each.".to_owned(),
        model: list("openai/gpt-5.2 anthropic/claude-sonnet-4-5"),
        tools: Tools::Only(list("fetch_page notes__* read_file web_search")),
        denied: list("notes__delete"),
        ask: list("notes__*"),
        max_turns: Some(40),
        max_tool_turns: Some(8),
        temperature_milli: Some(250),
        agents: Some(list("fact-checker")),
        hooks: list("audit"),
        cairn: CairnFields {
            capabilities: list("web_search"),
            budgets: AgentBudgets {
                tokens: Some(300_000),
                cost_nano_usd: Some(1_500_000_000),
                time_ms: Some(1_200_000),
                calls: Some(60),
            },
            compaction: AgentCompaction {
                at_permille: Some(600),
                keep_turns: Some(2),
                when_full: Some(WhenFull::Refuse),
            },
            window: Some(40),
        },
        ..AgentFile::named("web-researcher")
    };
    check(".cairn/agents/web-researcher.md", text, &expected, &[]);
    for (tool, wanted) in [
        ("web_search", Answer::Allow),
        ("notes__add", Answer::Ask),
        ("notes__delete", Answer::Deny),
        ("shell_exec", Answer::Deny),
    ] {
        assert_eq!(answer(&expected, tool), wanted, "{tool}");
    }
}
