use super::*;

fn global(file: &Path) -> Global {
    Global {
        config: Some(file.to_owned()),
        ..Global::default()
    }
}

fn settings(
    toml: &str,
    variables: &[(&str, &str)],
    flags: &[(&str, &str, &str)],
) -> Result<Loaded<Settings>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cairn.toml");
    std::fs::write(&file, toml).unwrap();
    let environment = Environment::of(variables.iter().copied());
    let flags: Vec<_> = flags
        .iter()
        .map(|(f, p, v)| (*f, *p, (*v).to_owned()))
        .collect();
    let loaded = load(&global(&file), &environment, &flags);
    loaded.map_err(|error| {
        assert_eq!(error.code, crate::error::USAGE);
        error
            .message
            .replace(&file.display().to_string(), "cairn.toml")
    })
}

#[test]
fn without_anything_there_is_the_rehearsal() {
    let loaded = settings("", &[], &[]).unwrap();
    assert_eq!(loaded.config.default_model(), "rehearsal");
    assert_eq!(loaded.config.store.path, Path::new(".cairn/cairn.db"));
    assert_eq!(
        loaded.config.registry().names().collect::<Vec<_>>(),
        ["rehearsal"]
    );
}

#[test]
fn flags_count_more_than_variables_and_these_more_than_the_file() {
    let file = "store.path = 'file.db'\nworkspace.path = 'file'\nmodel.pace = '1s'";
    let variables = [("CAIRN_STORE", "variable.db"), ("CAIRN_MODEL__PACE", "2s")];
    let flags = [("--pace", "model.pace", "3s")];
    let loaded = settings(file, &variables, &flags).unwrap();
    assert_eq!(loaded.config.workspace.path, Path::new("file"));
    assert_eq!(loaded.config.store.path, Path::new("variable.db"));
    assert_eq!(loaded.config.model.pace, Duration::from_secs(3));
    assert_eq!(
        loaded.origin("store.path").to_string(),
        "variable CAIRN_STORE"
    );
    assert_eq!(loaded.origin("model.pace").to_string(), "flag --pace");
}

#[test]
fn a_key_makes_openai_the_default_and_is_never_shown() {
    let key = [("OPENAI_API_KEY", "sk-canary-7")];
    let loaded = settings("", &key, &[]).unwrap();
    assert_eq!(loaded.config.default_model(), "openai");
    let registry = loaded.config.registry();
    assert_eq!(registry.default_name(), Some("openai"));
    assert!(registry.get("rehearsal").is_ok());
    let shown = format!("{}{:?}", loaded.show(), loaded.config);
    assert!(
        shown.contains("models.openai.api_key") && !shown.contains("canary"),
        "{shown}"
    );

    let chosen = settings("model.default = 'rehearsal'", &key, &[]).unwrap();
    assert_eq!(chosen.config.default_model(), "rehearsal");
}

#[test]
fn the_usual_variable_names_the_collector_and_never_shows_a_password() {
    const USUAL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let loaded = settings("", &[(USUAL, "http://collector:4317")], &[]).unwrap();
    let endpoint = loaded.config.telemetry.endpoint();
    assert_eq!(endpoint.as_deref(), Some("http://collector:4317"));
    assert_eq!(
        loaded.origin("telemetry.otlp").to_string(),
        format!("variable {USUAL}")
    );

    // It may be meant for others.
    let tls = (USUAL, "https://canary@collector");
    let loaded = settings("", &[tls, ("CAIRN_TELEMETRY__OTLP", "off")], &[]).unwrap();
    assert_eq!(loaded.config.telemetry.endpoint(), None);
    let error = settings("", &[tls], &[]).unwrap_err();
    let want = "variable OTEL_EXPORTER_OTLP_ENDPOINT: telemetry.otlp begins with https";
    assert!(error.contains(want) && !error.contains("canary"), "{error}");
}

#[test]
fn an_unknown_model_is_told_the_known_ones() {
    let file = "[models.local]\nbase_url = 'http://127.0.0.1:8080/v1'\nmodel = 'm'";
    let error = settings(file, &[], &[("--model", "model.default", "locl")]).unwrap_err();
    let want = "flag --model: model.default is \"locl\", which is no model here \
                (allowed: local, rehearsal)";
    assert!(error.contains(want), "{error}");
    let loaded = settings(file, &[], &[("--model", "model.default", "local")]).unwrap();
    assert_eq!(loaded.config.default_model(), "local");
}

#[test]
fn all_faults_come_at_once() {
    let file = "\
[store]
max_pages = 1
[run]
max_turns = 0
[models.tape]
provider = 'recorded'
[models.far]
base_url = 'http://models.example/v1'
api_key = 'sk-canary-7'
[[tools.commands]]
name = 'no name'
description = 'x'
argv = []
[surprise]
x = 1";
    let variables = [
        ("CAIRN_SESSION__LEASE", "forever"),
        ("CAIRN_LOG__LEVEL", "loud!"),
    ];
    let error = settings(file, &variables, &[]).unwrap_err();
    for part in [
        "cairn.toml:2: store.max_pages is too small (allowed: 256 or more)",
        "run.max_turns is 0 (allowed: 1 to 100000)",
        "models.tape.path is missing",
        "models.far.base_url is wrong: the model's key would travel over plain HTTP",
        "tools.commands[0].name 'no name' is not allowed",
        "tools.commands[0].argv missing program",
        "surprise is not a setting",
        "variable CAIRN_SESSION__LEASE: session.lease is \"forever\"",
        "variable CAIRN_LOG__LEVEL: log.level is \"loud!\"",
    ] {
        assert!(error.contains(part), "{part} is not in:\n{error}");
    }
    assert!(!error.contains("canary"), "{error}");
}

#[test]
fn a_recorded_model_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("tape.jsonl");
    std::fs::write(&tape, "{\"reply\": {\"text\": \"hi\"}}\n").unwrap();
    let file = format!(
        "model.default = 'tape'\n[models.tape]\nprovider = 'recorded'\npath = '{}'",
        tape.display()
    );
    let loaded = settings(&file, &[], &[]).unwrap();
    assert!(loaded.config.registry().get("tape").is_ok());
    std::fs::write(&tape, "no JSON\n").unwrap();
    let error = settings(&file, &[], &[]).unwrap_err();
    assert!(error.contains("models.tape.path"), "{error}");
    assert!(!error.contains("model.default"), "{error}");
}
