//! Models that are configured without the key that their provider asks for.

use crate::support::CAIRN;
use cairn_testkit::Site;

/// Such a model fails with its first request, and nobody else would say so before.
#[test]
fn a_model_whose_provider_takes_no_request_without_a_key_is_reported_by_check_config() {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    for (model, base_url) in [
        ("provider = 'openai'", Some("https://api.openai.com/v1")),
        (
            "base_url = 'https://API.openai.com/v1/'",
            Some("https://API.openai.com/v1/"),
        ),
        ("provider = 'anthropic'", Some("https://api.anthropic.com")),
        ("api_key = 'sk-x'", None),
        ("headers = { authorization = 'Bearer x' }", None),
        ("base_url = 'https://api.openai.com.example/v1'", None),
        ("base_url = 'http://127.0.0.1:11434/v1'\nmodel = 'm'", None),
    ] {
        site.write("cairn.toml", &format!("{settings}\n[models.a]\n{model}\n"));
        let done = site.run(&["check-config"]);
        assert_eq!(
            done.code,
            Some(if base_url.is_some() { 2 } else { 0 }),
            "{model}: {done:?}"
        );
        if let Some(base_url) = base_url {
            let want = format!("models.a.api_key is missing (allowed: a key; {base_url} takes");
            assert!(done.err.contains(&want), "{model}: {done:?}");
        }
        // Other processes over these settings may have the key.
        assert_ne!(site.run(&["sessions"]).code, Some(2), "{model}");
    }
}
