//! `web_search` against a provider that a test plays.

use crate::support::{World, request};
use cairn_engine::rules::{Answer, Rule};
use cairn_http::test_server::{Reply, TestServer};
use cairn_tools::mcp::Setting;
use cairn_tools::{BuildError, Config, Deps, Effect, ToolError, WebSearchConfig};
use serde_json::{Value, json};

const CANARY: &str = "canary-key-1234";

async fn provider(replies: Vec<Reply>) -> TestServer {
    TestServer::start(replies).await.unwrap()
}

fn config(server: &TestServer, key: Option<&str>, header: Option<&str>) -> WebSearchConfig {
    WebSearchConfig {
        url: format!("{}/search?language=en", server.url()),
        key: key.map(Setting::new),
        key_header: header.map(str::to_owned),
    }
}

/// A service that asks this provider, in a process that has the key.
fn world(search: WebSearchConfig, change: impl FnOnce(&mut Config)) -> World {
    World::with(|config: &mut Config, deps: &mut Deps| {
        config.web_search = Some(search);
        let key = ("SEARCH_KEY".to_owned(), CANARY.to_owned());
        deps.programs.environment.extend([key]);
        change(config);
    })
}

fn plain(server: &TestServer) -> World {
    world(config(server, None, None), |_| {})
}

async fn failure(world: &World) -> ToolError {
    world
        .error("web_search", json!({"query": "canary words"}))
        .await
}

fn results(count: usize) -> String {
    let results: Vec<Value> = (1..=count)
        .map(|at| {
            json!({"title": format!("Page {at}"), "url": format!("https://p.example/{at}"),
                "content": format!("About {at}."), "engine": "x"})
        })
        .collect();
    json!({"query": "x", "number_of_results": 0, "results": results}).to_string()
}

#[tokio::test]
async fn a_search_gives_titles_addresses_and_excerpts() {
    let server = provider(vec![Reply::json(200, results(30))]).await;
    let world = plain(&server);
    let found = world
        .text(
            "web_search",
            json!({"query": " rust & c++ ", "max_results": 2}),
        )
        .await;
    assert_eq!(
        found,
        "1. Page 1\n   https://p.example/1\n   About 1.\n2. Page 2\n   https://p.example/2\n   About 2."
    );
    let asked = &server.requests()[0];
    let expected = "GET /search?language=en&q=rust+%26+c%2B%2B&format=json HTTP/1.1";
    assert_eq!(asked.line, expected);
    assert_eq!(asked.header("authorization"), None);
    for (arguments, lines) in [
        (json!({"query": "x"}), 30),
        (json!({"query": "x", "max_results": 20}), 60),
    ] {
        let found = world.text("web_search", arguments).await;
        assert_eq!(found.lines().count(), lines);
    }
}

#[tokio::test]
async fn wrong_arguments_are_refused_before_anything_is_sent() {
    let server = provider(vec![Reply::json(200, results(1))]).await;
    let world = plain(&server);
    for arguments in [
        json!({}),
        json!({"query": ""}),
        json!({"query": "  "}),
        json!({"query": "x".repeat(1_001)}),
        json!({"query": "x", "max_results": 0}),
        json!({"query": "x", "max_results": 21}),
        json!({"query": "x", "provider": "https://elsewhere.example/"}),
    ] {
        let error = world.error("web_search", arguments).await;
        assert_eq!(error.reason(), "InvalidArguments", "{error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn there_is_no_such_tool_without_a_provider() {
    let error = failure(&World::new()).await;
    assert_eq!(error.reason(), "NotFound");
}

#[tokio::test]
async fn it_is_pure_and_rules_know_its_host() {
    let server = provider(vec![Reply::json(200, results(1))]).await;
    let spec = |world: &World| {
        let listed = world.listed().into_iter();
        let mut listed = listed.filter(|spec| spec.name == "web_search");
        listed.next().unwrap()
    };
    let here = spec(&plain(&server));
    assert_eq!((here.effect, here.default), (Effect::Pure, Answer::Allow));
    let host = here.matchers.iter().find(|it| it.name == "host").unwrap();
    let place = format!("{}/", server.url());
    assert_eq!(host.default.as_deref(), Some(place.as_str()));
    let elsewhere = WebSearchConfig {
        url: "https://elsewhere.example/search".to_owned(),
        ..WebSearchConfig::default()
    };
    let elsewhere = spec(&world(elsewhere, |_| {}));
    assert_ne!(here.digest(), elsewhere.digest());

    for (host, is_denied) in [("127.0.0.1", true), ("elsewhere.example", false)] {
        let denied = world(config(&server, None, None), |config| {
            config.rules = vec![Rule {
                tool: "web_*".to_owned(),
                when: [("host".to_owned(), host.to_owned())].into(),
                agent: None,
                answer: Answer::Deny,
            }];
        });
        let call = request("web_search", r#"{"query": "x"}"#);
        let outcome = denied.tools.invoker().invoke(call).await;
        let is_refused = matches!(outcome.result, Err(ToolError::Denied(_)));
        assert_eq!(is_refused, is_denied, "{host}: {:?}", outcome.result);
    }
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{CANARY}\n")).unwrap();
    let of_file = format!("file:{}", file.path().display());
    let bearer = format!("Bearer {CANARY}");
    let echo = json!({"results": [{"title": CANARY, "url": format!("https://p.example/?k={CANARY}"),
        "content": format!("with {CANARY}")}]});
    let script = vec![Reply::json(200, echo.to_string()), Reply::json(500, CANARY)];
    for (key, header, name, value) in [
        ("env:SEARCH_KEY", None, "authorization", bearer.as_str()),
        (of_file.as_str(), Some("X-Key"), "x-key", CANARY),
    ] {
        let server = provider(script.clone()).await;
        let world = world(config(&server, Some(key), header), |_| {});
        let text = world.text("web_search", json!({"query": "x"})).await;
        assert_eq!(
            text,
            "1. [secret]\n   https://p.example/?k=[secret]\n   with [secret]"
        );
        let error = failure(&world).await;
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        for asked in server.requests() {
            assert_eq!(asked.header(name), Some(value));
            assert!(!asked.line.contains(CANARY), "{}", asked.line);
        }
    }
}

#[tokio::test]
async fn without_its_key_nothing_is_sent() {
    let server = provider(vec![Reply::json(200, results(1))]).await;
    for (key, problem) in [
        ("env:NOT_SET", "env:NOT_SET is not set"),
        ("file:/nowhere/key", "file:/nowhere/key cannot be read"),
    ] {
        let world = world(config(&server, Some(key), None), |_| {});
        let error = failure(&world).await;
        assert_eq!(error.reason(), "ExecutionFailed");
        assert!(error.message().contains(problem), "{error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = provider(vec![Reply::json(200, results(1))]).await;
    let place = format!("{}/search", elsewhere.url());
    let redirect = Reply::json(302, "").header("location", &place);
    let server = provider(vec![redirect]).await;
    let world = world(config(&server, Some("env:SEARCH_KEY"), None), |_| {});
    let error = failure(&world).await;
    assert_eq!(error.reason(), "ExecutionFailed");
    assert!(
        error.message().contains("status 302, a redirect"),
        "{error}"
    );
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_answer_without_results_says_why() {
    let large = format!("{{\"results\": [], \"x\": \"{}\"}}", "x".repeat(5 << 20));
    for (reply, reason) in [
        (Reply::json(500, "<b>oh</b>"), "answered with status 500"),
        (Reply::json(403, ""), "answered with status 403; a person"),
        (Reply::json(429, ""), "answered with status 429; wait"),
        (Reply::json(200, "<html>"), "results of a search in JSON"),
        (Reply::json(200, "{}"), "results of a search in JSON"),
        (Reply::json(200, "[]"), "results of a search in JSON"),
        (
            Reply::json(200, r#"{"results": "#).then_cut(),
            "gave no answer",
        ),
        (Reply::json(200, large), "larger than 4194304 bytes"),
    ] {
        let server = provider(vec![reply]).await;
        let error = failure(&plain(&server)).await;
        assert_eq!(error.reason(), "ExecutionFailed", "{error}");
        assert!(error.message().contains(reason), "{error}");
        let host = server.url().strip_prefix("http://").unwrap();
        assert!(error.message().contains(host), "{error}");
        assert!(!error.message().contains("canary"), "{error}");
    }
    let server = provider(vec![Reply::json(200, results(0))]).await;
    let text = plain(&server)
        .text("web_search", json!({"query": "x"}))
        .await;
    assert_eq!(text, "nothing was found; try other words");
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_a_failure() {
    let server = provider(vec![Reply::json(200, results(1))]).await;
    let world = plain(&server);
    drop(server);
    let error = failure(&world).await;
    assert_eq!(error.reason(), "ExecutionFailed");
    assert!(error.message().contains("no connection to"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_answer_ends_the_call_at_its_limit() {
    let silent = Reply::pieces::<&str>(200, &[]).then_silence();
    let server = provider(vec![silent]).await;
    let error = failure(&plain(&server)).await;
    assert_eq!(error.reason(), "Timeout", "{error}");
}

#[test]
fn a_provider_that_cannot_be_asked_is_a_fault_of_the_settings() {
    let folder = tempfile::TempDir::new().unwrap();
    let config = Config {
        workspace: folder.path().to_owned(),
        output: folder.path().join("out"),
        web_search: Some(WebSearchConfig::default()),
        ..Config::default()
    };
    let Err(BuildError::Config(faults)) = cairn_tools::check(&config, &[]) else {
        panic!("it is accepted");
    };
    assert_eq!(faults[0].field, "web_search.url");
}
