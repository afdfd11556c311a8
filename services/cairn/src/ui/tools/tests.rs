use super::*;
use cairn_tools::mcp::Unused;

fn tool(name: &str, source: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        source: source.to_owned(),
        effect: effect.into(),
        digest: "d1".to_owned(),
        ..ToolSpec::default()
    }
}

fn source(name: &str, state: ToolSourceState, problem: &str, place: &str) -> ToolSource {
    ToolSource {
        name: name.to_owned(),
        state: state.into(),
        problem: problem.to_owned(),
        place: place.to_owned(),
        digest: "5e7".to_owned(),
        left_out: Vec::new(),
    }
}

fn listed() -> ListToolsResponse {
    let changed = ToolSpec {
        disabled: "its description changed\u{1b}[2J".to_owned(),
        ..tool("github__create_issue", "github", Effect::Effectful)
    };
    let long = "github__a_tool_whose_name_is_about_as_long_as_a_name_can_be_at_al";
    let mut github = source("github", ToolSourceState::Ready, "", "https://mcp.example");
    github.left_out = vec!["'x y' is no name".to_owned()];
    let answers = [
        RuleAnswer::Ask,
        RuleAnswer::Deny,
        RuleAnswer::Allow,
        RuleAnswer::Unspecified,
    ];
    ListToolsResponse {
        tools: vec![
            changed,
            tool(long, "github", Effect::Effectful),
            tool("list_files", "built-in", Effect::Pure),
            tool("write_file", "built-in", Effect::Idempotent),
        ],
        sources: vec![
            source("built-in", ToolSourceState::Ready, "", ""),
            github,
            source(
                "notes",
                ToolSourceState::NotAllowed,
                "it comes from .mcp.json",
                "npx notes",
            ),
        ],
        answers: answers.map(Into::into).to_vec(),
        offered: 1,
    }
}

fn left_out() -> [LeftOut; 2] {
    let of = |name: &str, why| LeftOut {
        name: Some(name.to_owned()),
        why,
    };
    let problem = "its args is no list".to_owned();
    [
        of("off", Unused::Disabled),
        of("bad", Unused::Unusable(problem)),
    ]
}

fn shown(width: Option<usize>) -> Vec<String> {
    let lines = lines(&listed(), &left_out(), Style::new(false), width);
    if let Some(width) = width {
        let fits = |line: &String| line.chars().count() <= width;
        assert!(lines.iter().all(fits), "{lines:#?}");
    }
    lines
}

#[test]
fn tools_and_sources_are_listed_with_what_to_do() {
    let listed = [80, 60, 200].map(|width| {
        let lines = shown(Some(width)).join("\n");
        format!("--- {width} columns\n{lines}\n")
    });
    insta::assert_snapshot!("tools_by_width", listed.concat());
    assert_eq!(shown(None), shown(Some(200)));
}

#[test]
fn what_is_to_be_allowed_is_shown_with_its_digest() {
    let listed = listed();
    let notes = allowable(&listed, "notes").unwrap();
    let tool = allowable(&listed, "github__create_issue").unwrap();
    let own = allowable(&listed, "list_files").unwrap();
    let shown = [&notes, &tool, &own].map(|it| format!("---\n{}\n", it.lines.join("\n")));
    insta::assert_snapshot!("tools_to_allow", shown.concat());
    assert_eq!((notes.digest.as_str(), tool.digest.as_str()), ("5e7", "d1"));
    assert!(!tool.lines.concat().contains('\u{1b}'), "{tool:?}");
    assert!(allowable(&listed, "other").is_none());
    assert!(own.is_own && !notes.is_own && !tool.is_own);
    assert_eq!(disabled_of(&listed, "github"), ["github__create_issue"]);
}

#[test]
fn a_tool_of_its_own_that_is_off_has_a_reason_and_nothing_to_allow() {
    let shell = ToolSpec {
        disabled: "keep the store in another place".to_owned(),
        ..tool("shell_exec", "built-in", Effect::Effectful)
    };
    let listed = ListToolsResponse {
        tools: vec![shell],
        ..ListToolsResponse::default()
    };
    let shown = lines(&listed, &[], Style::new(false), None).join("\n");
    let reason = "shell_exec is disabled: keep the store in another place";
    assert!(shown.contains(reason), "{shown}");
    assert!(!shown.contains("tools allow"), "{shown}");
    let found = allowable(&listed, "shell_exec").unwrap();
    assert_eq!(found.disabled, "keep the store in another place");
}

#[test]
fn nothing_of_what_is_to_be_allowed_is_cut() {
    let mut listed = listed();
    listed.sources[2].place = "x ".repeat(1000) + "end";
    listed.tools[0].description = "y ".repeat(1000) + "end";
    for name in ["notes", "github__create_issue"] {
        let shown = allowable(&listed, name).unwrap();
        assert!(shown.lines.concat().contains("end"), "{name}");
    }
}

#[test]
fn with_many_tools_those_of_servers_are_found_by_a_search() {
    let mut listed = listed();
    // One of the server's tools is disabled, and the other is denied.
    assert_eq!(offered_line(&listed), None);
    listed.answers = Vec::new();
    listed.offered = 3;
    assert_eq!(offered_line(&listed), None);
    listed.offered = 2;
    assert_eq!(
        offered_line(&listed).unwrap(),
        "3 tools are more than tools.offered = 2: a model is offered the built-in tools and your \
         programs, and finds the 1 of servers with search_tools"
    );
}

#[test]
fn a_rule_is_shown_as_settings_are() {
    let when = ["host", "path"].map(|name| Condition {
        name: name.to_owned(),
        pattern: "a**".to_owned(),
    });
    let rule = ToolRule {
        tool: "x__*".to_owned(),
        when: when.into(),
        agent: "writer".to_owned(),
        answer: RuleAnswer::Deny.into(),
    };
    let line = "x__* when host = \"a**\" and path = \"a**\" for agent writer: deny";
    assert_eq!(rule_line(&rule), line);
}

#[test]
fn a_server_without_a_name_has_a_line_that_shows_so() {
    for (name, shown) in [("", "''"), (" ", "' '"), ("a b", "a b")] {
        let left_out = [LeftOut {
            name: Some(name.to_owned()),
            why: Unused::Unusable("it is no object".to_owned()),
        }];
        let lines = lines(&listed(), &left_out, Style::new(false), None);
        let note = format!("! {shown} is left out: it is no object");
        assert!(lines.contains(&note), "{lines:?}");
        let is_row = |line: &String| line.starts_with(shown) && line.ends_with(".mcp.json");
        assert!(lines.iter().any(is_row), "{lines:?}");
    }
}

#[test]
fn json_has_each_source_and_tool() {
    let lines = json_lines(&listed(), &left_out());
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, [["source"; 5].as_slice(), &["tool"; 4]].concat());
    assert_eq!(lines[2]["state"], "not_allowed");
    assert_eq!(lines[4]["state"], "left_out");
    assert_eq!(lines[8]["rule"], "depends");
}

#[test]
fn files_of_media_have_harmless_names() {
    for (mime, want) in [
        ("image/png", "png"),
        ("image/svg+xml; charset=utf-8", "svg"),
        ("../../etc", "bin"),
        ("text/../x", "bin"),
        ("", "bin"),
    ] {
        assert_eq!(extension(mime), want, "{mime}");
    }
    let media = CallMedia {
        mime_type: "image/png".to_owned(),
        data: vec![0; 3],
        ..CallMedia::default()
    };
    let file = Path::new("out/media-1.png");
    assert_eq!(
        media_line(&media, file),
        "[image/png, 3 bytes, saved as out/media-1.png]"
    );
}
