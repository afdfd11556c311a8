//! Servers that speak TLS.

use crate::support::work::{creation, key, transition};
use cairn_memory::port::Store as _;
use cairn_memory::redis::{OpenError, RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Makes an authority, and a certificate of it for this machine, in a folder.
fn make_certificates(folder: &Path) {
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    for command in [
        format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority"),
        format!("req {key} -keyout key.pem -out request.pem -subj /CN=redis"),
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
         -extfile names -out cert.pem"
            .to_owned(),
    ] {
        let done = Command::new("openssl")
            .args(command.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(done.status.success(), "{command}: {done:?}");
    }
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_alone() {
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let port = port.unwrap().port();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let _server = RedisServer::with(&[
        ("tls-port", &port.to_string()),
        ("tls-cert-file", &file("cert.pem")),
        ("tls-key-file", &file("key.pem")),
        ("tls-ca-cert-file", &file("ca.pem")),
        ("tls-auth-clients", "no"),
    ]);
    let config = RedisConfig {
        ca_file: Some(file("ca.pem").into()),
        ..RedisConfig::standalone(format!("rediss://127.0.0.1:{port}"))
    };
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
    assert!(matches!(refused, Err(OpenError::Unavailable(_))));
}
