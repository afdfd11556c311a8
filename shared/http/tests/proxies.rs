//! Which requests go through a proxy.

#![allow(clippy::expect_used, reason = "a test may panic")]

use cairn_http::test_server::{Reply, TestServer};
use cairn_http::{HttpConfig, HttpError, Proxies, build_client};

/// The answer of a server that is no proxy.
const ELSEWHERE: &str = "http://models.invalid/x";

fn proxies(variables: &[(&str, &str)]) -> Proxies {
    Proxies::read(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| *value)
    })
}

/// The outcome of a request, and the first line that the proxy got.
async fn send(url: &str, variable: &str) -> (Result<(), HttpError>, Option<String>) {
    let proxy = TestServer::start(vec![Reply::pieces(502, &["no"])]).await;
    let proxy = proxy.expect("a server");
    let client = build_client(&HttpConfig {
        proxies: proxies(&[(variable, proxy.url())]),
        ..HttpConfig::default()
    });
    let client = client.expect("a client");
    let outcome = client.send(client.get(url)).await.map(drop);
    let requests = proxy.requests();
    (outcome, requests.first().map(|seen| seen.line.clone()))
}

#[tokio::test]
async fn a_plain_request_is_given_to_the_proxy_and_a_secure_one_takes_a_tunnel() {
    let plain = format!("GET {ELSEWHERE} HTTP/1.1");
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        let (outcome, line) = send(ELSEWHERE, variable).await;
        outcome.expect("the proxy's answer");
        assert_eq!(line.as_ref(), Some(&plain), "{variable}");
    }
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        let (outcome, line) = send("https://models.invalid/x", variable).await;
        let error = outcome.expect_err("the proxy refuses");
        assert!(matches!(error, HttpError::Connect { .. }), "{error:?}");
        let expected = "CONNECT models.invalid:443 HTTP/1.1";
        assert_eq!(line.as_deref(), Some(expected), "{variable}");
    }
}

#[test]
fn the_scheme_and_the_host_of_an_address_decide_which_proxy_it_takes() {
    let secure = "https://models.invalid/x";
    let both = [("HTTPS_PROXY", "s:1"), ("HTTP_PROXY", "p:2")];
    let all = ("ALL_PROXY", "http://a:3");
    type Case = (
        &'static str,
        Vec<(&'static str, &'static str)>,
        Option<&'static str>,
    );
    let cases: [Case; 15] = [
        (ELSEWHERE, vec![], None),
        (ELSEWHERE, both.to_vec(), Some("p:2")),
        (secure, both.to_vec(), Some("s:1")),
        (secure, vec![both[1]], None),
        (ELSEWHERE, vec![both[0]], None),
        (ELSEWHERE, vec![both[0], all], Some("a:3")),
        (secure, vec![both[0], all], Some("s:1")),
        (secure, vec![both[0], ("https_proxy", "l:4")], Some("l:4")),
        (ELSEWHERE, vec![both[1], ("http_proxy", " ")], Some("p:2")),
        (ELSEWHERE, vec![("HTTP_PROXY", "socks5://h:1")], None),
        (secure, vec![all, ("NO_PROXY", "other, .invalid")], None),
        (secure, vec![all, ("no_proxy", "*")], None),
        (secure, vec![all, ("NO_PROXY", "dels.invalid")], Some("a:3")),
        (
            "http://10.1.2.3/",
            vec![all, ("NO_PROXY", "10.0.0.0/8")],
            None,
        ),
        ("http://[::1]:8/", vec![all], None),
    ];
    for (url, variables, expected) in cases {
        let tunnel = proxies(&variables).tunnel_to(url);
        let shown = tunnel.map(|tunnel| format!("{tunnel:?}"));
        let fits = match (&shown, expected) {
            (Some(shown), Some(expected)) => shown.contains(expected),
            (None, None) => true,
            _ => false,
        };
        assert!(fits, "{url} {variables:?}: {shown:?}");
    }
}

#[tokio::test]
async fn this_machine_is_reached_directly() {
    let server = TestServer::start(vec![Reply::pieces(200, &["direct"])]).await;
    let server = server.expect("a server");
    for variable in ["HTTP_PROXY", "ALL_PROXY"] {
        let (outcome, line) = send(server.url(), variable).await;
        outcome.expect("an answer");
        assert_eq!(line, None);
    }
    for host in ["localhost", "127.9.9.9"] {
        let url = format!("http://{host}:1/");
        let (outcome, line) = send(&url, "HTTP_PROXY").await;
        outcome.expect_err("nothing listens there");
        assert_eq!(line, None, "{url}");
    }
}

#[tokio::test]
async fn credentials_go_to_the_proxy_and_are_shown_to_nobody() {
    let proxy = TestServer::start(vec![Reply::pieces(502, &["no"])]).await;
    let proxy = proxy.expect("a server");
    let with_user = proxy.url().replace("http://", "http://user:canary-7d1f@");
    for url in [ELSEWHERE, "https://models.invalid/"] {
        let config = HttpConfig {
            proxies: proxies(&[("ALL_PROXY", &with_user)]),
            ..HttpConfig::default()
        };
        let client = build_client(&config).expect("a client");
        let outcome = client.send(client.get(url)).await;
        let shown = match &outcome {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{error} {error:?} {}", error.with_causes()),
        };
        let named = config.proxies.named();
        let shown = format!("{shown} {config:?} {client:?} {named:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
    for seen in proxy.requests() {
        // user:canary-7d1f
        let credentials = seen.header("proxy-authorization");
        assert_eq!(credentials, Some("Basic dXNlcjpjYW5hcnktN2QxZg=="));
    }
    assert_eq!(proxy.requests().len(), 2);
}

#[test]
fn a_variable_that_is_no_address_of_a_proxy_is_ignored_and_named() {
    for value in [
        "socks5://canary:1",
        "http://",
        "canary canary",
        "ftp://canary",
        ":::",
    ] {
        let proxies = proxies(&[("HTTPS_PROXY", value)]);
        let faults: Vec<String> = proxies.faults().collect();
        assert_eq!(faults.len(), 1, "{value}");
        assert!(
            faults[0].starts_with("HTTPS_PROXY is no address"),
            "{faults:?}"
        );
        let shown = format!("{faults:?} {proxies:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
    assert!(proxies(&[]).named().is_empty());
}
