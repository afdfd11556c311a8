//! The client's guards, against a real server.

#![allow(clippy::expect_used, reason = "a test may panic")]

use cairn_http::test_server::{Reply, TestServer};
use cairn_http::{HttpClient, HttpConfig, HttpError, build_client};
use std::time::Duration;

/// 65,536 times the letter `a`, compressed with gzip.
fn bomb() -> Vec<u8> {
    let head = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 237, 193, 129, 0, 0, 0, 0, 128, 32, 214, 253, 37, 22, 169,
        10,
    ];
    let tail = [106, 255, 145, 32, 195, 0, 0, 1, 0];
    [&head[..], &[0; 63], &tail[..]].concat()
}

fn client(config: &HttpConfig) -> HttpClient {
    build_client(config).expect("a client")
}

async fn server(reply: Reply) -> TestServer {
    TestServer::start(vec![reply]).await.expect("a server")
}

async fn body(config: &HttpConfig, url: &str) -> Result<Vec<u8>, HttpError> {
    let client = client(config);
    client.send(client.get(url)).await?.bytes().await
}

#[tokio::test]
async fn an_answer_comes_whole_whatever_its_status() {
    let server = server(Reply::pieces(418, &["a tea", "pot"]).header("x-pot", "small")).await;
    let client = client(&HttpConfig::default());

    let request = client.post(server.url()).body("brew");
    let response = client.send(request).await.expect("an answer");

    assert_eq!(response.status(), 418);
    assert_eq!(response.headers()["x-pot"], "small");
    assert_eq!(response.bytes().await.expect("a body"), b"a teapot");
    let seen = &server.requests()[0];
    assert_eq!(seen.line, "POST / HTTP/1.1");
    assert_eq!(seen.body, "brew");
    assert!(
        seen.header("user-agent")
            .is_some_and(|name| name.starts_with("cairn/"))
    );
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    let server = server(Reply::pieces(200, &["12345", "67890"])).await;
    let config = |max_response_bytes| HttpConfig {
        max_response_bytes,
        ..HttpConfig::default()
    };

    assert_eq!(
        body(&config(10), server.url()).await.expect("a body").len(),
        10
    );
    let error = body(&config(9), server.url()).await.expect_err("too large");
    assert!(
        matches!(error, HttpError::TooLarge { limit: 9 }),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_limit_counts_bytes_after_decompression() {
    let server = server(Reply::pieces(200, &[bomb()]).header("content-encoding", "gzip")).await;
    let config = |max_response_bytes| HttpConfig {
        max_response_bytes,
        ..HttpConfig::default()
    };

    assert_eq!(
        body(&config(65_536), server.url()).await.expect("a body"),
        vec![b'a'; 65_536]
    );
    let error = body(&config(1_000), server.url())
        .await
        .expect_err("too large");
    assert!(
        matches!(error, HttpError::TooLarge { limit: 1_000 }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let reply = Reply::pieces::<&str>(302, &[]).header("location", "http://127.0.0.1:9/");
    let server = server(reply).await;
    let client = client(&HttpConfig::default());

    let response = client
        .send(client.get(server.url()))
        .await
        .expect("an answer");

    assert_eq!(response.status(), 302);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn each_limit_of_time_names_itself() {
    let short = Duration::from_millis(40);
    let long = Duration::from_secs(60);
    let silent = server(Reply::pieces(200, &["beginning"]).then_silence()).await;
    let mute = server(Reply::pieces::<&str>(200, &[]).then_silence()).await;

    for url in [silent.url(), mute.url()] {
        for (total, idle) in [
            (Some(short), None),
            (Some(long), Some(short)),
            (None, Some(short)),
        ] {
            let config = HttpConfig {
                total_timeout: total,
                idle_timeout: idle,
                ..HttpConfig::default()
            };
            let error = body(&config, url).await.expect_err("no answer");
            assert!(
                matches!(error, HttpError::Timeout { after } if after == short),
                "{total:?} {idle:?}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_first_byte_has_a_limit_of_its_own() {
    let (first, idle) = (Duration::from_millis(90), Duration::from_millis(40));
    let begun = server(Reply::pieces(200, &["beginning"]).then_silence()).await;
    let head_only = server(Reply::pieces(200, &[""]).then_silence()).await;
    let mute = server(Reply::pieces::<&str>(200, &[]).then_silence()).await;
    for (url, expected) in [
        (begun.url(), idle),
        (head_only.url(), first),
        (mute.url(), first),
    ] {
        let config = HttpConfig {
            first_byte_timeout: Some(first),
            idle_timeout: Some(idle),
            ..HttpConfig::default()
        };
        let error = body(&config, url).await.expect_err("no answer");
        assert!(
            matches!(error, HttpError::Timeout { after } if after == expected),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn waiting_without_end_is_refused() {
    let config = HttpConfig {
        total_timeout: None,
        idle_timeout: None,
        ..HttpConfig::default()
    };
    let error = build_client(&config).expect_err("no limit");
    assert!(matches!(error, HttpError::Config { .. }), "{error:?}");
}

#[tokio::test]
async fn a_cut_connection_is_broken_and_a_closed_port_is_no_connection() {
    let server = server(Reply::pieces(200, &["half an ans"]).then_cut()).await;
    let error = body(&HttpConfig::default(), server.url())
        .await
        .expect_err("cut");
    assert!(matches!(error, HttpError::Broken { .. }), "{error:?}");

    let url = server.url().to_owned();
    drop(server);
    tokio::task::yield_now().await;
    let error = body(&HttpConfig::default(), &url)
        .await
        .expect_err("closed");
    assert!(matches!(error, HttpError::Connect { .. }), "{error:?}");
    assert!(
        url.ends_with(error.to_string().rsplit(' ').next().expect("a host")),
        "{error}"
    );
}

#[tokio::test]
async fn no_error_shows_the_query_of_its_url() {
    let server = server(Reply::pieces(200, &["half"]).then_cut()).await;
    let config = HttpConfig::default();
    let closed = "http://127.0.0.1:1/?token=canary-7d1f";
    let urls = [
        format!("{}/?token=canary-7d1f", server.url()),
        closed.to_owned(),
    ];

    for url in urls
        .iter()
        .map(String::as_str)
        .chain(["ht tp://?canary-7d1f"])
    {
        let error = body(&config, url).await.expect_err("an error");
        let shown = format!("{error} {error:?} {}", error.with_causes());
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[tokio::test]
async fn a_proxy_in_the_environment_is_ignored() {
    // The test runs in a process of its own, whose environment names a proxy that does not exist.
    if std::env::var_os("HTTP_PROXY").is_none() {
        let this = std::env::current_exe().expect("this binary");
        let status = std::process::Command::new(this)
            .args(["--exact", "a_proxy_in_the_environment_is_ignored"])
            .envs([
                ("HTTP_PROXY", "http://127.0.0.1:1"),
                ("http_proxy", "http://127.0.0.1:1"),
            ])
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .status();
        assert!(status.expect("a process").success());
        return;
    }
    let server = server(Reply::pieces(200, &["direct"])).await;
    let body = body(&HttpConfig::default(), server.url()).await;
    assert_eq!(body.expect("a body"), b"direct");
}
