use super::*;

fn environment() -> BTreeMap<String, String> {
    let variables = [
        ("GITHUB_TOKEN", "t"),
        ("HOME", "/home/me"),
        ("EMPTY", ""),
        ("API_KEY", "sk-canary"),
        ("BASE", "https://example.com"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    variables.into()
}

fn parse(text: &str) -> Vec<JsonServer> {
    parse_servers(text, &environment()).unwrap()
}

fn one(entry: &str) -> JsonServer {
    let text = format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#);
    parse(&text).remove(0)
}

fn config(entry: &str) -> ServerConfig {
    let server = one(entry).config;
    server.unwrap_or_else(|unused| panic!("{entry}: {unused:?}"))
}

fn problem(entry: &str) -> String {
    match one(entry).config {
        Err(Unused::Unusable(problem)) => problem,
        other => panic!("{entry}: {other:?}"),
    }
}

/// As users of other programs have them.
#[test]
fn files_of_other_programs_are_read() {
    let text = "\u{feff}{
        \"$schema\": \"x\",
        \"mcpServers\": {
            \"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"server\", \".\"], \"type\": \"stdio\"},
            \"github\": {\"type\": \"http\", \"url\": \"https://example.com/mcp\",
                \"headers\": {\"Authorization\": \"Bearer ${GITHUB_TOKEN}\"}, \"timeout\": 5},
            \"off\": {\"command\": \"a\", \"disabled\": true},
            \"not on\": {\"command\": \"a\", \"enabled\": false},
            \"on\": {\"command\": \"a\", \"enabled\": true, \"disabled\": false, \"autoApprove\": [\"x\"]},
            \"io.github.some/server\": {\"command\": \"a\"},
            \"My Server\": {\"command\": \"a\"},
            \"My.Server\": {\"command\": \"a\"},
            \"__\": {\"command\": \"a\"},
            \"program\": {\"command\": \"a\"}
        }
    }"
    .replace('\n', "\r\n");
    let servers = parse(&text);
    let found: Vec<_> = servers
        .iter()
        .map(|it| {
            let state = match &it.config {
                Ok(_) => "used".to_owned(),
                Err(Unused::Disabled) => "disabled".to_owned(),
                Err(Unused::Unusable(problem)) => problem.clone(),
            };
            (&*it.written, &*it.name, state)
        })
        .collect();
    let used = "used".to_owned();
    let disabled = "disabled".to_owned();
    assert_eq!(found[0], ("files", "files", used.clone()));
    assert_eq!(found[1], ("github", "github", used.clone()));
    assert_eq!(found[2], ("off", "off", disabled.clone()));
    assert_eq!(found[3], ("not on", "not_on", disabled));
    assert_eq!(found[4], ("on", "on", used.clone()));
    assert_eq!(
        found[5],
        (
            "io.github.some/server",
            "io_github_some_server",
            used.clone()
        )
    );
    assert_eq!(found[6], ("My Server", "My_Server", used));
    for (at, says) in [
        (
            7,
            "its name here would be 'My_Server', which another server has",
        ),
        (8, "has the name '__'"),
        (9, "has the name of another source"),
    ] {
        assert!(found[at].2.contains(says), "{:?}", found[at]);
    }
    let github = servers[1].config.as_ref().unwrap();
    assert_eq!(github.references(), ["env:GITHUB_TOKEN"]);
    let header = github.headers["Authorization"].resolve(&environment());
    assert_eq!(header.ok().unwrap().value, "Bearer t");
}

#[test]
fn tools_that_are_disabled_are_left_out() {
    let config = config(r#"{"command": "a", "disabledTools": ["delete", "drop"]}"#);
    assert_eq!(config.disabled_tools, ["delete", "drop"]);
    assert!(problem(r#"{"command": "a", "disabledTools": "delete"}"#).contains("is no list"));
}

#[test]
fn variables_are_put_in_where_the_digest_covers_them() {
    for (written, expected) in [
        ("${HOME}/server", "/home/me/server"),
        ("${env:HOME}/a ${HOME}", "/home/me/a /home/me"),
        ("${NONE:-d e}", "d e"),
        ("${NONE:-}", ""),
        ("${EMPTY:-d}", "d"),
        ("${HOME:-d}", "/home/me"),
        ("$HOME {a} $", "$HOME {a} $"),
    ] {
        let config = config(&format!(r#"{{"command": "a", "args": ["{written}"]}}"#));
        assert_eq!(config.args, [expected], "{written}");
        // It is shown as the file has it: others may see that.
        assert_eq!(config.place(), format!("a {written}"));
    }
    let url = config(r#"{"url": "${BASE}/mcp?key=${API_KEY}"}"#);
    assert_eq!(url.url, "https://example.com/mcp?key=sk-canary");
    assert!(!url.place().contains("canary"), "{}", url.place());
    let with = |home: &str| {
        let environment = BTreeMap::from([("HOME".to_owned(), home.to_owned())]);
        let text = r#"{"mcpServers": {"s": {"command": "${HOME}/server"}}}"#;
        let server = parse_servers(text, &environment).unwrap().remove(0);
        server.config.unwrap().digest(std::path::Path::new("/ws"))
    };
    assert_ne!(with("/home/me"), with("/home/other"));
    // Values of variables and headers are taken when the server starts.
    let env = config(r#"{"command": "a", "env": {"A": "${NONE:-d}", "B": "${HOME}"}}"#);
    let value = |name: &str| env.env[name].resolve(&environment()).ok().unwrap().value;
    assert_eq!(
        (value("A"), value("B")),
        ("d".to_owned(), "/home/me".to_owned())
    );
    assert_eq!(env.references(), ["env:HOME", "env:NONE"]);
}

#[test]
fn a_person_sees_what_is_run_and_no_secret() {
    let server = one(
        r#"{"command": "${HOME}/a", "args": ["${api_token:-x}", "${API_KEY}"], "cwd": "${NONE:-b}"}"#,
    );
    let shown = |field: &str| server.entry[field].to_string();
    assert_eq!(shown("command"), r#""/home/me/a""#);
    assert_eq!(shown("args"), r#"["${api_token}","${API_KEY}"]"#);
    assert_eq!(shown("cwd"), r#""b""#);
    let config = server.config.unwrap();
    assert_eq!(config.args[1], "sk-canary");
    assert!(config.values.contains(&"sk-canary".to_owned()));
}

#[test]
fn what_cannot_be_used_is_said_for_each() {
    for (entry, says) in [
        (
            r#"{"type": "sse", "url": "https://example.com/sse"}"#,
            "its type is sse",
        ),
        (
            r#"{"command": "a", "args": ["${NONE}"]}"#,
            "its args refers to the variable NONE, which is not set",
        ),
        (
            r#"{"url": "${NONE}/mcp"}"#,
            "its url refers to the variable NONE, which is not set",
        ),
        (
            r#"{"command": "${input:path}"}"#,
            "its command has a ${…} that is no name of a variable",
        ),
        (
            r#"{"command": "a", "env": {"B": "${C D}"}}"#,
            "its env.B has a ${…} that is no name of a variable",
        ),
        (r#"{"command": "a", "args": "y"}"#, "its args is no list"),
        (r#"{"url": "${HOME}"}"#, "its url is no address"),
        ("{}", "it has neither command nor url"),
        ("[]", "it is no object"),
    ] {
        let problem = problem(entry);
        assert!(problem.starts_with(says), "{entry}: {problem}");
    }
    let many: Vec<String> = (0..70)
        .map(|at| format!(r#""s{at}": {{"command": "a"}}"#))
        .collect();
    let servers = parse(&format!(r#"{{"mcpServers": {{{}}}}}"#, many.join(",")));
    let used = servers.iter().filter(|it| it.config.is_ok()).count();
    assert_eq!((servers.len(), used), (70, MOST_SERVERS));
}

#[test]
fn what_is_no_such_file_is_an_error() {
    let error = |text: &str| {
        let error = parse_servers(text, &environment()).map(|_| ());
        error.unwrap_err().to_string()
    };
    for (text, words) in [
        ("{", "no JSON"),
        ("{}", "no mcpServers"),
        ("[]", "no mcpServers"),
        (r#"{"mcpServers": []}"#, "no object"),
    ] {
        let error = error(text);
        assert!(error.contains(words), "{error}");
    }
    assert!(error(&" ".repeat(2 << 20)).contains("more than"));
}
