//! Proxies that the environment names.

use crate::support::{CAIRN, shown};
use cairn_testkit::model_server::reply;
use cairn_testkit::{ModelServer, Output, Site};
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// A server that answers every request, and the first lines of the requests.
fn server() -> (ModelServer, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let server = ModelServer::seeing(move |asked| {
        seen.lock().unwrap().push(asked.line.clone());
        reply("c", "Hello.", &[])
    });
    (server, lines)
}

/// One turn with a model at this address.
fn chat(base_url: &str, variables: &[(&str, &str)]) -> Output {
    let site = Site::new(CAIRN);
    site.append(
        "cairn.toml",
        &format!("\n[models.m]\nbase_url = \"{base_url}\"\nmodel = \"m\"\n"),
    );
    let mut command = site.command(&["chat", "--model", "m"]);
    command.envs(variables.iter().copied());
    command.env("CAIRN_MODEL__MAX_RETRIES", "0");
    let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [input, out, err] = pipes;
    let mut child = command
        .stdin(input)
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hi\n").unwrap();
    let done = child.wait_with_output().unwrap();
    Output {
        code: done.status.code(),
        signal: None,
        out: String::from_utf8_lossy(&done.stdout).into_owned(),
        err: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

#[test]
fn a_request_to_another_machine_goes_through_the_proxy_and_one_to_this_machine_does_not() {
    let (server, lines) = server();
    let far = chat("http://model.invalid/v1", &[("HTTP_PROXY", server.url())]);
    assert_eq!(far.code, Some(0), "{far:?}");
    let near = chat(server.url(), &[("http_proxy", "http://127.0.0.1:1")]);
    assert_eq!(near.code, Some(0), "{near:?}");
    let expected = [
        "POST http://model.invalid/v1/chat/completions HTTP/1.1",
        "POST /v1/chat/completions HTTP/1.1",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
}

#[test]
fn the_doctor_names_proxies_without_their_credentials() {
    let site = Site::new(CAIRN);
    let variables = [
        (
            "https_proxy",
            "http://user:canary@proxy.example:3128/canary",
        ),
        ("HTTP_PROXY", "proxy.example"),
        ("ALL_PROXY", "socks5://canary@proxy.example"),
        ("NO_PROXY", ".example, 10.0.0.0/8"),
    ];
    let done = site.run_with(&["doctor"], &variables);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(!format!("{done:?}").contains("canary"), "{done:?}");
    let lines = done
        .out
        .lines()
        .skip_while(|line| !line.starts_with("proxy"));
    let lines: Vec<&str> = lines.collect();
    shown::settings(&site).bind(|| insta::assert_snapshot!("doctor", lines.join("\n")));
}
