//! Servers that speak TLS.

use crate::support::work::{creation, key, transition};
use cairn_memory::port::Store as _;
use cairn_memory::redis::{ClientCertificate, OpenError, RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::{RedisServer, free_port};
use futures::StreamExt as _;
use std::path::Path;
use std::process::Command;

/// Makes an authority, and certificates of it for this machine and for a client, in a folder.
fn make_certificates(folder: &Path) {
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let sign = "x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -days 2";
    for command in [
        format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority"),
        format!("req {key} -keyout key.pem -out request.pem -subj /CN=redis"),
        format!("{sign} -in request.pem -out cert.pem"),
        format!("req {key} -keyout client.key -out request.pem -subj /CN=cairn"),
        format!("{sign} -in request.pem -out client.pem"),
    ] {
        let done = Command::new("openssl")
            .args(command.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(done.status.success(), "{command}: {done:?}");
    }
}

/// A server that speaks TLS, and how it is reached by whoever shows nothing.
fn serve(folder: &Path, asks_clients: &str) -> (RedisServer, RedisConfig) {
    make_certificates(folder);
    let port = free_port();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let server = RedisServer::with(&[
        ("tls-port", &port.to_string()),
        ("tls-cert-file", &file("cert.pem")),
        ("tls-key-file", &file("key.pem")),
        ("tls-ca-cert-file", &file("ca.pem")),
        ("tls-auth-clients", asks_clients),
    ]);
    let config = RedisConfig {
        ca_file: Some(file("ca.pem").into()),
        ..RedisConfig::standalone(format!("rediss://127.0.0.1:{port}"))
    };
    (server, config)
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, config) = serve(folder.path(), "no");
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    let store = store.unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    store.commit(transition("a", "one", 0)).await.unwrap();
    assert_eq!(store.read(&key("a"), 0, 10).await.unwrap().last_seq, 2);

    let stranger = RedisConfig {
        ca_file: None,
        ..config
    };
    let refused = RedisStore::open(&stranger, RedisOptions::default()).await;
    let Err(OpenError::Unavailable(refused)) = refused else {
        panic!("{refused:?}");
    };
    // It is the certificate, and not TLS.
    assert!(!refused.to_string().contains("is it TLS"), "{refused}");
}

#[tokio::test]
async fn a_server_that_asks_who_connects_is_shown_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, nobody) = serve(folder.path(), "yes");
    let refused = RedisStore::open(&nobody, RedisOptions::default()).await;
    assert!(matches!(refused, Err(OpenError::Unavailable(_))));

    let shows = |cert_file: &str, key_file: &str| RedisConfig {
        client_certificate: Some(ClientCertificate {
            cert_file: folder.path().join(cert_file),
            key_file: folder.path().join(key_file),
        }),
        ..nobody.clone()
    };
    let config = shows("client.pem", "client.key");
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    let store = store.unwrap();
    store.create(creation("a", Some("one"))).await.unwrap();
    // Listening has connections of its own.
    let mut events = store.follow(&key("a"), 0).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().len(), 1);

    for (cert_file, key_file, blamed) in [
        ("none.pem", "client.key", "none.pem"),
        ("client.pem", "none.key", "none.key"),
        ("client.key", "client.key", "client.key"),
        ("client.pem", "cert.pem", "cert.pem"),
    ] {
        let config = shows(cert_file, key_file);
        let refused = RedisStore::open(&config, RedisOptions::default()).await;
        match refused {
            Err(OpenError::Certificates { file, .. }) => assert!(file.ends_with(blamed)),
            other => panic!("{cert_file} {key_file}: {other:?}"),
        }
    }
}

fn tls_port(server: &RedisServer) -> String {
    let answer = server.ask(&["CONFIG", "GET", "tls-port"]);
    answer.lines().last().unwrap().trim().to_owned()
}

#[tokio::test]
async fn who_speaks_tls_to_a_server_that_does_not_is_told_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let (server, config) = serve(folder.path(), "no");
    let (plain, secure) = (server.port(), tls_port(&server));
    let cases = [
        (
            format!("rediss://127.0.0.1:{plain}"),
            "is it TLS that it speaks?",
        ),
        (format!("redis://127.0.0.1:{secure}"), "rediss://"),
    ];
    for (url, hint) in cases {
        let config = RedisConfig {
            urls: vec![url.as_str().into()],
            ..config.clone()
        };
        let refused = RedisStore::open(&config, RedisOptions::default()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(hint), "{url}: {refused}");
    }
}
