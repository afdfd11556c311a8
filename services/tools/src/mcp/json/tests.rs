use super::*;

#[test]
fn files_of_other_programs_are_read() {
    let text = r#"{
        "$schema": "x",
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server", "."], "type": "stdio", "disabled": true},
            "github": {"type": "http", "url": "https://example.com/mcp",
                "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}, "timeout": 5},
            "old": {"type": "sse", "url": "https://example.com/sse"},
            "expands": {"command": "${HOME}/server"},
            "default": {"command": "a", "env": {"B": "${B:-c}"}},
            "a b": {"command": "a"},
            "none": {}
        }
    }"#;
    let (servers, problems) = parse_servers(text).unwrap();
    let names: Vec<_> = servers.keys().map(String::as_str).collect();
    assert_eq!(names, ["files", "github"]);
    assert_eq!(servers["files"].place(), "npx -y server .");
    assert_eq!(servers["github"].references(), ["env:GITHUB_TOKEN"]);
    let environment = BTreeMap::from([("GITHUB_TOKEN".to_owned(), "t".to_owned())]);
    let header = servers["github"].headers["Authorization"]
        .resolve(&environment)
        .ok()
        .unwrap();
    assert_eq!(header.value, "Bearer t");
    let expected = [
        "server 'old' is not used: its type is sse",
        "server 'expands' is not used: its command has a variable",
        "server 'default' is not used: its env.B has a ${…} that is no plain name",
        "server 'a b' is not used: it has the name 'a b'",
        "server 'none' is not used: its command is missing",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
    for expected in expected {
        assert!(
            problems.iter().any(|it| it.starts_with(expected)),
            "{expected}: {problems:?}"
        );
    }
}

#[test]
fn what_is_no_such_file_is_an_error() {
    for (text, words) in [
        ("{", "no JSON"),
        ("{}", "no mcpServers"),
        ("[]", "no mcpServers"),
        (r#"{"mcpServers": []}"#, "no object"),
    ] {
        let error = parse_servers(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(
        parse_servers(&" ".repeat(2 << 20))
            .unwrap_err()
            .to_string()
            .contains("more than")
    );
}
