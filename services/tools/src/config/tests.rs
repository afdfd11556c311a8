use super::*;
use crate::mcp::ServerConfig;

fn fields(config: &Config) -> Vec<String> {
    match config.validate() {
        Ok(()) => Vec::new(),
        Err(faults) => faults.into_iter().map(|fault| fault.field).collect(),
    }
}

#[test]
fn the_defaults_are_valid() {
    Config::default().validate().unwrap();
    assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
}

#[test]
fn a_command_is_effectful_and_takes_any_object_unless_it_says_otherwise() {
    let config: Config = toml::from_str(
        r#"
        deny = ["write_file"]
        [[commands]]
        name = "deploy"
        description = "Deploys."
        argv = ["./deploy", "--now"]
        "#,
    )
    .unwrap();
    config.validate().unwrap();
    let command = &config.commands[0];
    assert_eq!(command.effect, Effect::Effectful);
    assert_eq!(command.parameters, json!({"type": "object"}));
    assert_eq!(command.time_limit_ms, 30_000);
    assert!(command.env.is_empty());
}

#[test]
fn a_schema_can_be_written_in_toml() {
    let config: Config = toml::from_str(
        r#"
        [[commands]]
        name = "count"
        description = "Counts."
        argv = ["count"]
        effect = "pure"
        [commands.parameters]
        type = "object"
        required = ["word"]
        additionalProperties = false
        properties.word = { type = "string", maxLength = 20 }
        "#,
    )
    .unwrap();
    config.validate().unwrap();
    assert_eq!(config.commands[0].effect, Effect::Pure);
    assert_eq!(
        config.commands[0].parameters["properties"]["word"]["maxLength"],
        20
    );
}

#[test]
fn unknown_settings_are_refused() {
    for text in [
        "workspce = '.'",
        "[limits]\noutput = 5",
        "[[commands]]\nname='a'\ndescription='b'\nargv=['c']\nshell=true",
        "[[commands]]\nname='a'\ndescription='b'\nargv=['c']\neffect='safe'",
        "[[commands]]\nname='a'\ndescription='b'\nargv='c d'",
        "[[commands]]\nname='a'\nargv=['c']",
    ] {
        assert!(toml::from_str::<Config>(text).is_err(), "{text}");
    }
}

#[test]
fn several_tools_processes_have_no_server_that_keeps_state() {
    let with = |replicas, stateful| {
        let server = ServerConfig {
            command: "serve".to_owned(),
            stateful,
            ..ServerConfig::default()
        };
        let server = Server::of_operator(server);
        let config = Config {
            replicas,
            servers: [("s".to_owned(), server)].into(),
            ..Config::default()
        };
        fields(&config)
    };
    assert!(with(1, true).is_empty());
    assert!(with(2, false).is_empty());
    assert_eq!(with(2, true), ["servers.s.stateful"]);
    assert_eq!(with(0, false), ["replicas"]);
}

#[test]
fn every_fault_is_reported_at_once() {
    let command = CommandConfig {
        name: "bad name".to_owned(),
        description: " ".to_owned(),
        argv: Vec::new(),
        effect: Effect::Effectful,
        parameters: json!({"type": "array"}),
        time_limit_ms: 0,
        output_bytes: 1,
        env: vec!["CAIRN_CALL_KEY".to_owned(), "A=B".to_owned(), String::new()],
        confine: Confine::None,
    };
    let config = Config {
        workspace: PathBuf::new(),
        output: PathBuf::new(),
        limits: Limits {
            parallel_calls: 0,
            output_bytes: 10,
            total_bytes: 0,
            walk_depth: 1000,
            ..Limits::default()
        },
        commands: vec![command],
        ..Config::default()
    };
    assert_eq!(
        fields(&config),
        [
            "workspace",
            "output",
            "limits.parallel_calls",
            "limits.output_bytes",
            "limits.total_bytes",
            "limits.walk_depth",
            "commands[0].name",
            "commands[0].description",
            "commands[0].argv",
            "commands[0].parameters",
            "commands[0].time_limit_ms",
            "commands[0].output_bytes",
            "commands[0].env",
            "commands[0].env",
            "commands[0].env",
        ]
    );
    let faults = config.validate().unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "workspace is missing (allowed: a folder)"
    );
}

#[test]
fn names_are_taken_once() {
    let named = |name: &str| CommandConfig {
        name: name.to_owned(),
        description: "d".to_owned(),
        argv: vec!["true".to_owned()],
        effect: Effect::Pure,
        parameters: any_object(),
        time_limit_ms: 1,
        output_bytes: 256,
        env: Vec::new(),
        confine: Confine::None,
    };
    let config = |names: &[&str]| Config {
        commands: names.iter().map(|name| named(name)).collect(),
        ..Config::default()
    };
    assert!(fields(&config(&["a", "b"])).is_empty());
    assert_eq!(fields(&config(&["a", "a"])), ["commands[1].name"]);
    for reserved in ["read_file", "step", "session_memory_set"] {
        assert_eq!(fields(&config(&[reserved])), ["commands[0].name"]);
    }
    for bad in ["", "a b", "a.b", "ä", "a/b", &"a".repeat(65)] {
        assert_eq!(fields(&config(&[bad])), ["commands[0].name"], "{bad}");
    }
    assert!(fields(&config(&[&"a".repeat(64)])).is_empty());
}

#[test]
fn a_fault_of_a_rule_says_what_its_field_allows() {
    let rule = |tool: &str, name: &str, pattern: &str| Rule {
        tool: tool.to_owned(),
        when: [(name.to_owned(), pattern.to_owned())].into(),
        agent: None,
        answer: Answer::Ask,
    };
    for (rule, field, allowed) in [
        (
            rule("a[", "path", "docs/**"),
            "rules[0].tool",
            "a pattern of names, such as github__*",
        ),
        (
            rule("a", "path", "./x/**"),
            "rules[0].when.path",
            "a pattern of values, such as docs/**",
        ),
        (
            rule("a", "host", "[a"),
            "rules[0].when.host",
            "a pattern of values, such as docs/**",
        ),
    ] {
        let config = Config {
            rules: vec![rule],
            ..Config::default()
        };
        let faults = config.validate().unwrap_err();
        let found: Vec<_> = faults
            .iter()
            .map(|it| (it.field.as_str(), it.allowed.as_str()))
            .collect();
        assert_eq!(found, [(field, allowed)]);
    }
}

#[test]
fn a_rule_names_an_agent_that_there_can_be() {
    let faults = |agent: &str| {
        let rule = Rule {
            tool: "*".to_owned(),
            when: Default::default(),
            agent: Some(agent.to_owned()),
            answer: Answer::Ask,
        };
        let config = Config {
            rules: vec![rule],
            ..Config::default()
        };
        fields(&config)
    };
    for agent in ["reviewer", "workspace:reviewer", "default"] {
        assert!(faults(agent).is_empty(), "{agent}");
    }
    for agent in ["", "code reviewer", "workspace:", "other:reviewer", "*"] {
        assert_eq!(faults(agent), ["rules[0].agent"], "{agent:?}");
    }
}
