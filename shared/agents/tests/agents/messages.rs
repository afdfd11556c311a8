//! What a person is told of a field that is wrong, or that is none.

use crate::{lines, read};
use cairn_agents::agent::{self, Mode};
use cairn_agents::{Tools, document::MAX_FILE};

/// The only fault of these lines of front matter, the first of which is line 2 of the file.
fn error(front: &str) -> String {
    let error = read(front).unwrap_err();
    assert_eq!(error.faults.len(), 1, "{error}");
    let line = error.to_string();
    let place = format!("agents/a.md:{}: ", error.faults[0].line);
    line.strip_prefix(&place).unwrap_or(&line).to_owned()
}

fn warnings(front: &str) -> Vec<String> {
    lines(&read(front).unwrap().warnings)
}

const TEXT: &str = "text, in quotes if it looks like a number, a list or a map";
const NAMES: &str = "a list of names, or names with commas between them";
/// A field, what is wrong with it, and what is allowed.
const WRONG: &[(&str, &str, &str)] = &[
    ("name: 5", "name is 5", "text, in quotes if it is a number"),
    (
        "name: [a]",
        "name is a list",
        "text, in quotes if it is a number",
    ),
    ("description: 2024", "description is 2024", TEXT),
    ("description: {a: b}", "description is a map", TEXT),
    ("prompt: 5", "prompt is 5", "text"),
    (
        "model: 5",
        "model is 5",
        "the name of a model, or a list of such names",
    ),
    (
        "model: [a, 5]",
        "model is 5",
        "the name of a model, or a list of such names",
    ),
    (
        "model: {a: b}",
        "model is a map",
        "the name of a model, or a list of such names",
    ),
    ("tools: 5", "tools is 5", NAMES),
    ("tools: true", "tools is true", NAMES),
    ("tools: [Read, 5]", "tools has an item that is 5", NAMES),
    ("tools: [[Read]]", "tools has an item that is a list", NAMES),
    (
        "tools:",
        "tools has no value",
        "names of tools, or [] for none",
    ),
    ("tools: {read: 1}", "tools.read is 1", "true or false"),
    (
        "tools: {read: \"false\"}",
        "tools.read is \"false\"",
        "true or false",
    ),
    (
        "tools: 'Bash(git'",
        "tools has a '(' without a ')' in \"Bash(git\"",
        "such as Bash(git:*)",
    ),
    ("disallowedTools: 5", "disallowedTools is 5", NAMES),
    (
        "disallowed-tools:",
        "disallowed-tools has no value",
        "names of tools, or [] for none",
    ),
    (
        "permission: 5",
        "permission is 5",
        "allow, ask or deny, or a map of patterns to them",
    ),
    (
        "permission: {edit: no}",
        "permission.edit is \"no\"",
        "allow, ask or deny, or a map of patterns to them",
    ),
    (
        "permissionMode: yolo",
        "permissionMode is \"yolo\"",
        "default, plan",
    ),
    (
        "maxTurns: many",
        "maxTurns is \"many\"",
        "a whole number from 1 to 100000",
    ),
    ("steps: 0", "steps is 0", "a whole number from 1 to 100000"),
    (
        "maxSteps: 1.5",
        "maxSteps is 1.5",
        "a whole number from 1 to 100000",
    ),
    (
        "max-turns: -1",
        "max-turns is -1",
        "a whole number from 1 to 100000",
    ),
    (
        "max_tool_turns: 1001",
        "max_tool_turns is 1001",
        "a whole number from 0 to 1000",
    ),
    (
        "temperature: hot",
        "temperature is \"hot\"",
        "a number from 0 to 2",
    ),
    (
        "temperature: 2.1",
        "temperature is 2.1",
        "a number from 0 to 2",
    ),
    (
        "effort: 3",
        "effort is 3",
        "minimal, low, medium, high, xhigh, max",
    ),
    (
        "effort: huge",
        "effort is \"huge\"",
        "minimal, low, medium, high, xhigh, max",
    ),
    ("mode: agent", "mode is \"agent\"", "primary, subagent, all"),
    ("hidden: 1", "hidden is 1", "true or false"),
    ("disable: \"yes\"", "disable is \"yes\"", "true or false"),
    (
        "user-invocable: no",
        "user-invocable is \"no\"",
        "true or false",
    ),
    ("skills: 5", "skills is 5", NAMES),
    ("skills: {a: b}", "skills is a map", NAMES),
    ("agents: [5]", "agents has an item that is 5", NAMES),
    ("mcpServers: 5", "mcpServers is 5", "names of servers"),
    ("hooks: 5", "hooks is 5", "names of hooks"),
    (
        "metadata: [a]",
        "metadata is a list",
        "a map of names to text",
    ),
    ("cairn: 5", "cairn is 5", "a map of fields"),
    (
        "cairn: {budgets: 5}",
        "cairn.budgets is 5",
        "a map of fields",
    ),
    ("cairn: {capabilities: 5}", "cairn.capabilities is 5", NAMES),
];

#[test]
fn each_field_of_a_wrong_type_is_an_error_that_says_what_is_allowed() {
    for (front, problem, allowed) in WRONG {
        assert_eq!(error(front), format!("{problem} (allowed: {allowed})"));
    }
}

#[test]
fn each_unknown_field_is_a_warning_with_the_nearest_name() {
    for (front, warning) in [
        (
            "tols: Read",
            "line 2: tols is no field of an agent, did you mean tools?",
        ),
        (
            "temprature: 1",
            "line 2: temprature is no field of an agent, did you mean temperature?",
        ),
        (
            "\nmaxTurn: 5",
            "line 3: maxTurn is no field of an agent, did you mean max-turns?",
        ),
        (
            "dissalowedTools: x",
            "line 2: dissalowedTools is no field of an agent, did you mean disallowed-tools?",
        ),
        (
            "Modle: x",
            "line 2: Modle is no field of an agent, did you mean model?",
        ),
        ("favourite: x", "line 2: favourite is no field of an agent"),
        (
            "\"a\\nb\\e\": x",
            "line 2: a\\nb\\u{1b} is no field of an agent",
        ),
        (
            "isolation: worktree",
            "line 2: isolation has no effect in Cairn",
        ),
        ("top_p: 0.5", "line 2: top_p has no effect in Cairn"),
        (
            "cairn: {limits: 5}",
            "line 2: cairn.limits is no field of cairn",
        ),
    ] {
        assert_eq!(warnings(front), [warning], "{front}");
    }
    for front in [
        "color: red",
        "version: 1",
        "argument-hint: x",
        "tags: [a]",
        "model:",
        "name:",
    ] {
        assert_eq!(warnings(front), Vec::<String>::new(), "{front}");
    }
}

#[test]
fn a_field_counts_in_each_of_its_spellings_and_once() {
    for name in [
        "max-turns",
        "maxTurns",
        "max_turns",
        "MAX-TURNS",
        "steps",
        "maxSteps",
    ] {
        let agent = read(&format!("{name}: 7")).unwrap().value;
        assert_eq!(agent.max_turns, Some(7), "{name}");
    }
    let again = "maxTurns is steps of line 2 again (allowed: each field once)";
    assert_eq!(error("steps: 5\nmaxTurns: 6"), again);
    assert_eq!(
        error("model: a\ntools: Read\nmodel: b"),
        "model is there twice (allowed: each field once)"
    );
}

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    let error = read("mode: x\ntools: 5\nsteps: y").unwrap_err();
    let expected = "agents/a.md has 3 faults\n  \
        agents/a.md:2: mode is \"x\" (allowed: primary, subagent, all)\n  \
        agents/a.md:3: tools is 5 (allowed: a list of names, or names with commas between them)\n  \
        agents/a.md:4: steps is \"y\" (allowed: a whole number from 1 to 100000)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_name_is_that_of_the_field_or_of_the_file() {
    let name = |path: &str, front: &str| {
        let parsed = agent::parse(path, &format!("---\n{front}\n---\nP")).unwrap();
        (parsed.value.name, parsed.value.title, parsed.warnings.len())
    };
    assert_eq!(name("x/b.md", ""), ("b".to_owned(), None, 0));
    assert_eq!(name("x/b.md", "name: c"), ("c".to_owned(), None, 0));
    assert_eq!(
        name("x/b.md", "name: C d"),
        ("b".to_owned(), Some("C d".to_owned()), 1)
    );
    let error = |path: &str, front: &str| {
        let error = agent::parse(path, &format!("---\n{front}\n---\nP")).unwrap_err();
        error.to_string()
    };
    let allowed = "(allowed: 1 to 64 letters, digits, '.', '_' and '-', of which the first is a letter or a digit)";
    assert_eq!(
        error("x/a b.md", ""),
        format!("x/a b.md: name is missing, and the name of the file is \"a b\" {allowed}")
    );
    assert_eq!(
        error("a b.md", "name: c/d"),
        format!(
            "a b.md:2: name is \"c/d\", which is no name, and neither is that of the file {allowed}"
        )
    );
    let nameless = |front: &str| {
        let error = agent::parse("", &format!("---\n{front}\n---\nP")).unwrap_err();
        error.faults[0].to_string()
    };
    assert_eq!(nameless(""), format!("name is missing {allowed}"));
    assert_eq!(
        nameless("name: c/d"),
        format!("line 2: name is \"c/d\", which is no name {allowed}")
    );
    let named = agent::parse("", "---\nname: b\n---\nP").unwrap();
    assert_eq!(named.value.name, "b");
}

#[test]
fn the_prompt_is_the_body_or_the_field() {
    let parse = |text: &str| agent::parse("a.md", text).unwrap();
    let both = parse("---\nprompt: x\n---\nBody");
    assert_eq!(both.value.prompt, "Body");
    let warning = "line 2: prompt has no effect: the text below the front matter is the prompt";
    assert_eq!(lines(&both.warnings), [warning]);
    assert_eq!(parse("---\nprompt: x\n---\n\n").value.prompt, "x");
    let none = parse("---\nmodel: m\n---\n");
    assert_eq!(none.value.prompt, "");
    let warning = "has no text below the front matter: the agent has no instructions of its own";
    assert_eq!(lines(&none.warnings), [warning]);
    assert_eq!(lines(&parse("").warnings), [warning]);
    let error = agent::parse("a.md", "---\nprompt: \"{file:./x.txt}\"\n---\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.md:2: prompt is \"{file:./x.txt}\" (allowed: the text itself, here or below the front matter)"
    );
}

#[test]
fn rights_are_narrowed_by_each_field_and_widened_by_none() {
    let agent = |front: &str| read(front).unwrap().value;
    assert_eq!(agent("color: red").tools, Tools::All);
    assert_eq!(agent("tools: []").tools, Tools::Only(Vec::new()));
    assert_eq!(
        agent("allowed-tools: Read").tools,
        agent("tools: Read").tools
    );
    let both = agent("tools: [Read, Grep]\npermission: {\"*\": deny, read: allow, bash: allow}");
    assert_eq!(both.tools, Tools::Only(vec!["read_file".to_owned()]));
    let plan = agent("permissionMode: plan");
    assert_eq!(plan.denied, ["edit_file", "shell_exec", "write_file"]);
    for mode in ["acceptEdits", "bypassPermissions", "dontAsk", "auto"] {
        let parsed = read(&format!("permissionMode: {mode}")).unwrap();
        assert_eq!(
            (parsed.value.denied.len(), parsed.warnings.len()),
            (0, 1),
            "{mode}"
        );
    }
    assert_eq!(agent("agents: '*'").agents, None);
    assert_eq!(agent("agents: []").agents, Some(Vec::new()));
}

#[test]
fn models_are_in_their_order_up_to_the_one_that_is_used_anyway() {
    let models = |front: &str| read(front).unwrap().value.model;
    assert_eq!(
        models("model: Claude Sonnet 4.5 (copilot)"),
        ["Claude Sonnet 4.5 (copilot)"]
    );
    assert_eq!(models("model: [a, b, a, inherit, c]"), ["a", "b"]);
    assert!(models("model: inherit").is_empty());
}

#[test]
fn who_may_use_an_agent_has_several_spellings() {
    let mode = |front: &str| {
        let agent = read(front).unwrap().value;
        (agent.mode, agent.is_hidden)
    };
    assert_eq!(mode("color: red"), (Mode::All, false));
    assert_eq!(
        mode("disable-model-invocation: true"),
        (Mode::Primary, false)
    );
    assert_eq!(mode("infer: false"), (Mode::Primary, false));
    assert_eq!(mode("user-invocable: false"), (Mode::Subagent, false));
    assert_eq!(
        mode("user-invocable: false\ninfer: false"),
        (Mode::All, true)
    );
    assert_eq!(mode("mode: Subagent\nhidden: true"), (Mode::Subagent, true));
}

#[test]
fn what_is_no_front_matter_has_a_message_with_its_line() {
    for (text, message) in [
        (
            "---\nname: a\n",
            "a.md:1: begins front matter that no line `---` ends (allowed: a line `---` after it; a rule at \
             the beginning of a text is `***`)",
        ),
        (
            "---\n- a\n---\n",
            "a.md:2: the front matter is a list (allowed: fields of the form `name: value`)",
        ),
        (
            "---\nmodel: a\nx: &a 1\n---\n",
            "a.md:3: anchors and aliases (`&name`, `*name`) are not supported; text that begins so stands in \
             quotes",
        ),
    ] {
        assert_eq!(agent::parse("a.md", text).unwrap_err().to_string(), message);
    }
    let open = agent::parse("a.md", "---\ntools: [Read\n---\n").unwrap_err();
    assert!(
        open.to_string().contains("the front matter is no YAML"),
        "{open}"
    );
    let long = "a".repeat(MAX_FILE + 1);
    let error = agent::parse("a.md", &long).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.md: has 65537 bytes (allowed: at most 65536)"
    );
}
