use super::*;

fn program() -> ServerConfig {
    toml::from_str(
        r#"
        command = "npx"
        args = ["-y", "server"]
        env = { TOKEN = "env:GITHUB_TOKEN", KEY = "file:/run/key", MODE = "literal" }
        effects = { search = "pure" }
        arguments = { whither = "path", label = "prose" }
        "#,
    )
    .unwrap()
}

fn fields(name: &str, config: &ServerConfig) -> Vec<String> {
    let mut faults = Vec::new();
    config.validate("servers.x", name, &mut faults);
    faults.into_iter().map(|fault| fault.field).collect()
}

#[test]
fn two_lines_are_a_server() {
    let config = program();
    assert!(fields("github", &config).is_empty());
    assert_eq!(config.protocol, Protocol::Auto);
    assert_eq!((config.time_limit_ms, config.start_ms), (60_000, 30_000));
    assert_eq!(config.effects["search"], Effect::Pure);
    assert_eq!(config.arguments["label"], MatcherKind::Prose);
    assert_eq!(config.place(), "npx -y server");
    assert_eq!(config.references(), ["env:GITHUB_TOKEN", "file:/run/key"]);
    let web: ServerConfig = toml::from_str(r#"url = "https://example.com/mcp""#).unwrap();
    assert!(fields("web", &web).is_empty());
    toml::from_str::<ServerConfig>("comand = 'x'").unwrap_err();
    toml::from_str::<ServerConfig>("protocol = '2030-01-01'").unwrap_err();
}

#[test]
fn faults_name_their_field() {
    let with = |text: &str| fields("x", &toml::from_str(text).unwrap());
    assert_eq!(with(""), ["servers.x.command"]);
    assert_eq!(with("command = 'a'\nurl = 'http://a'"), ["servers.x.url"]);
    assert_eq!(with("url = 'ftp://a'"), ["servers.x.url"]);
    assert_eq!(with("url = 'http://a'\nargs = ['b']"), ["servers.x.args"]);
    assert_eq!(
        with("command = 'a'\nheaders = { b = 'c' }"),
        ["servers.x.headers"]
    );
    assert_eq!(
        with("url = 'http://a'\nheaders = { 'b c' = 'd' }"),
        ["servers.x.headers"]
    );
    assert_eq!(
        with("command = 'a'\nenv = { B = 'env:' }"),
        ["servers.x.env.B"]
    );
    assert_eq!(
        with("command = 'a'\nenv = { 'B=' = 'c' }"),
        ["servers.x.env"]
    );
    assert_eq!(with("command = 'a'\nstart_ms = 0"), ["servers.x.start_ms"]);
    for bytes in [0, (1 << 20) - 1, (64 << 20) + 1] {
        let field = with(&format!("command = 'a'\nmessage_bytes = {bytes}"));
        assert_eq!(field, ["servers.x.message_bytes"], "{bytes}");
    }
    assert!(with(&format!("command = 'a'\nmessage_bytes = {}", 64 << 20)).is_empty());
    for name in [
        "",
        "a b",
        "a__b",
        "_a",
        "a_",
        "built-in",
        "program",
        &"a".repeat(33),
    ] {
        assert_eq!(fields(name, &program()), ["servers.x"], "{name}");
    }
    for name in ["a", "a-b_c", "GitHub2"] {
        assert!(fields(name, &program()).is_empty(), "{name}");
    }
}

#[test]
fn the_digest_covers_what_is_started() {
    let digest = |change: &dyn Fn(&mut ServerConfig)| {
        let mut config = program();
        change(&mut config);
        config.digest(Path::new("/ws"))
    };
    let same = digest(&|_| {});
    let literal = digest(&|config| drop(config.env.insert("MODE".to_owned(), "other".into())));
    let changed = [
        digest(&|config| config.command = "node".to_owned()),
        digest(&|config| config.args = vec!["-y server".to_owned()]),
        digest(&|config| drop(config.env.remove("KEY"))),
        digest(&|config| drop(config.env.insert("TOKEN".to_owned(), "env:OTHER".into()))),
        digest(&|config| config.cwd = Some("sub".into())),
        digest(&|config| config.protocol = Protocol::Legacy),
        literal,
        program().digest(Path::new("/other")),
    ];
    for (at, digest) in changed.iter().enumerate() {
        assert_ne!(*digest, same, "{at}");
    }
    assert_eq!(digest(&|config| config.time_limit_ms = 5), same);
    assert_eq!(digest(&|config| config.allow = Some(Vec::new())), same);
}

/// Pins go by it: another key is no other server, and what else runs is.
#[test]
fn the_identity_has_names_and_no_values() {
    let identity = |change: &dyn Fn(&mut ServerConfig)| {
        let mut config = program();
        change(&mut config);
        config.identity(Path::new("/ws"))
    };
    let same = identity(&|_| {});
    for value in ["other", "env:OTHER", "file:/other"] {
        let changed = identity(&|config| drop(config.env.insert("MODE".to_owned(), value.into())));
        assert_eq!(changed, same, "{value}");
    }
    for changed in [
        identity(&|config| drop(config.env.insert("MORE".to_owned(), "x".into()))),
        identity(&|config| drop(config.env.remove("KEY"))),
        identity(&|config| config.args = vec!["other".to_owned()]),
    ] {
        assert_ne!(changed, same);
    }
    let web = |query: &str| {
        let config = ServerConfig {
            url: format!("https://example.com/mcp?key={query}"),
            ..ServerConfig::default()
        };
        config.identity(Path::new("/ws"))
    };
    assert_eq!(web("one"), web("other"));
}

#[test]
fn a_place_shows_no_user_and_no_query() {
    let config = ServerConfig {
        url: "https://user:word@example.com:8443/mcp?key=word#word".to_owned(),
        ..ServerConfig::default()
    };
    assert_eq!(config.place(), "https://example.com:8443/mcp");
}

#[test]
fn literal_values_are_not_shown() {
    let shown = format!(
        "{:?} {}",
        program(),
        serde_json::to_string(&program()).unwrap()
    );
    assert!(!shown.contains("literal"), "{shown}");
    assert!(shown.contains("env:GITHUB_TOKEN"), "{shown}");
}
