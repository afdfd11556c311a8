//! Opening a store on Redis: what is refused, and what is told of the servers' settings.

use cairn_memory::conformance;
use cairn_memory::conformance::Subject;
use cairn_memory::redis::{OpenError, RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_memory::{Config, Deps, Durability, StoreConfig};
use cairn_rpc::{Clock, ManualClock};
use cairn_testkit::RedisServer;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;

async fn open(config: &RedisConfig) -> Result<RedisStore, OpenError> {
    RedisStore::open(config, RedisOptions::default()).await
}

fn at(server: &RedisServer) -> RedisConfig {
    RedisConfig::standalone(server.url())
}

#[tokio::test]
async fn a_store_is_the_same_when_it_is_opened_again() {
    let server = RedisServer::start();
    let first = open(&at(&server)).await.unwrap();
    assert_eq!(*first.durability().borrow(), Durability::Durable);
    let again = open(&at(&server)).await.unwrap();
    assert_eq!(first.id(), again.id());
    let other = RedisConfig {
        prefix: "other".to_owned(),
        ..at(&server)
    };
    assert_ne!(open(&other).await.unwrap().id(), first.id());
}

#[tokio::test]
async fn settings_that_lose_what_was_answered_are_told_or_refused() {
    let server = RedisServer::with(&[("appendfsync", "everysec")]);
    let store = open(&at(&server)).await.unwrap();
    let told = store.durability().borrow().to_string();
    assert!(told.contains("degraded"), "{told}");
    assert!(told.contains("appendfsync is everysec"), "{told}");
    let strict = RedisConfig {
        require_durable: true,
        ..at(&server)
    };
    let refused = open(&strict).await.unwrap_err();
    assert!(matches!(refused, OpenError::NotDurable { .. }), "{refused}");
    open(&RedisConfig {
        require_durable: true,
        ..at(&RedisServer::start())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_store_of_another_format_or_somebody_elses_key_is_left_alone() {
    let server = RedisServer::start();
    server.ask(&["HSET", "cairn:{p000}:meta", "format", "2"]);
    let refused = open(&at(&server)).await.unwrap_err();
    assert!(refused.to_string().contains("format \"2\""), "{refused}");
    server.ask(&["SET", "cairn:{p000}:meta", "mine"]);
    let refused = open(&at(&server)).await.unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
    assert!(server.ask(&["DBSIZE"]).contains(":1"));
}

#[tokio::test]
async fn a_wrong_password_is_told_and_never_shown() {
    let server = RedisServer::with(&[("requirepass", "right")]);
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port());
    open(&RedisConfig::standalone(url("right"))).await.unwrap();
    for url in [url("canary"), server.url()] {
        let config = RedisConfig::standalone(url);
        let refused = open(&config).await.unwrap_err();
        let text = format!("{refused} {refused:?} {config:?}");
        assert!(text.contains("check user and password"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let mut server = RedisServer::start();
    server.kill();
    let refused = open(&at(&server)).await.unwrap_err();
    assert!(
        refused.to_string().contains("cannot be reached"),
        "{refused}"
    );
}

/// A configuration that is wrong is told as such, and not as a fault of the server.
#[tokio::test]
async fn a_server_of_another_kind_is_told() {
    let server = RedisServer::start();
    let cases = [
        (RedisMode::Cluster, "it belongs to no cluster"),
        (RedisMode::Sentinel, "it is no sentinel"),
    ];
    for (mode, says) in cases {
        let config = RedisConfig {
            mode,
            master: Some("master".to_owned()),
            ..at(&server)
        };
        let refused = open(&config).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
        assert!(refused.contains("store.redis.mode"), "{refused}");
    }
}

#[tokio::test]
async fn what_is_no_redis_is_told_as_that() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n<html>";
            connection.write_all(answer).await.unwrap();
        }
    });
    let config = RedisConfig::standalone(format!("redis://127.0.0.1:{port}"));
    let refused = open(&config).await.unwrap_err().to_string();
    assert!(
        refused.contains("something else listens there"),
        "{refused}"
    );
    assert_eq!(refused.lines().count(), 1, "{refused}");
}

/// What is configured reaches the store, also from a runtime with one thread.
#[tokio::test]
async fn the_service_is_built_on_redis() {
    let server = RedisServer::with(&[("appendonly", "no")]);
    let config = Config {
        store: StoreConfig::Redis(at(&server)),
        ..Config::default()
    };
    let opened = cairn_memory::open(config, Deps::default()).unwrap();
    assert_eq!(opened.durability.borrow().name(), "degraded");
    assert!(opened.memory.store().now().await.unwrap() > 0);
    opened.memory.store().close().await;
    assert!(opened.memory.store().now().await.unwrap_err().is_closed());
}

/// The users of the template, with a password.
fn template() -> impl Iterator<Item = String> {
    let template = include_str!("../../../../../deploy/redis/cairn.acl");
    let users = template.lines().filter(|line| line.starts_with("user "));
    users.map(|line| line.replace("CHANGE-ME", "secret"))
}

#[test]
fn servers_take_the_template_as_their_file_and_replicate_with_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.acl");
    let users = template().map(|line| match line.as_str() {
        // For this test to look.
        "user default off" => "user default on nopass -@all +ping +info\n".to_owned(),
        _ => line.replace("user replica off", "user replica on") + "\n",
    });
    std::fs::write(&file, users.collect::<String>()).unwrap();
    let settings = [
        ("aclfile", file.to_str().unwrap()),
        ("masteruser", "replica"),
        ("masterauth", "secret"),
    ];
    let master = RedisServer::with(&settings);
    let at = format!("127.0.0.1 {}", master.port());
    let replica = RedisServer::with(&[&settings[..], &[("replicaof", &at)]].concat());
    let start = Instant::now();
    while !replica
        .ask(&["INFO", "replication"])
        .contains("master_link_status:up")
    {
        assert!(start.elapsed() < Duration::from_secs(20), "no replication");
        std::thread::yield_now();
    }
}

/// A server and a store on it, which works as a user with no more rights than the template gives.
async fn restricted(clock: Option<Arc<ManualClock>>) -> (RedisServer, RedisStore) {
    let server = RedisServer::start();
    for line in template() {
        let words = ["ACL", "SETUSER"].into_iter();
        let words: Vec<_> = words.chain(line.split_whitespace().skip(1)).collect();
        assert_eq!(server.ask(&words), "+OK\r\n", "{line}");
    }
    let url = format!("redis://cairn:secret@127.0.0.1:{}", server.port());
    let options = RedisOptions {
        limits: conformance::limits(),
        clock: clock.map(|clock| clock as Arc<dyn Clock>),
        ..RedisOptions::default()
    };
    let store = RedisStore::open(&RedisConfig::standalone(url), options).await;
    (server, store.unwrap())
}

/// The store is there, and its settings are right.
#[tokio::test]
async fn a_user_that_may_not_write_is_found_out() {
    let (server, _store) = restricted(None).await;
    let url = format!("redis://cairn:secret@127.0.0.1:{}", server.port());
    let examined = RedisStore::examine(&RedisConfig::standalone(url)).await;
    assert_eq!(examined.unwrap(), Durability::Durable);
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    RedisStore::open(&config, RedisOptions::default())
        .await
        .unwrap();
    let reader = "ACL SETUSER reader on >secret ~cairn:* &cairn:* -@all +@read +evalsha +info \
                  +config|get +time +ping";
    let reader: Vec<_> = reader.split_whitespace().collect();
    assert_eq!(server.ask(&reader), "+OK\r\n");
    let url = format!("redis://reader:secret@127.0.0.1:{}", server.port());
    let refused = RedisStore::examine(&RedisConfig::standalone(url)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("its user may not do"), "{refused}");
}

/// A subject whose time is given.
async fn subject() -> Subject {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let (server, store) = restricted(Some(clock.clone())).await;
    assert_eq!(*store.durability().borrow(), Durability::Durable);
    let pass = move |ms| -> BoxFuture<'static, ()> {
        let _ = &server;
        clock.advance(Duration::from_millis(ms));
        Box::pin(async {})
    };
    Subject {
        store: Arc::new(store),
        pass: Box::new(pass),
    }
}

/// A subject whose time is the server's.
async fn timed_subject() -> Subject {
    let (server, store) = restricted(None).await;
    let server = Arc::new(server);
    let pass = move |ms| -> BoxFuture<'static, ()> {
        let server = server.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            drop(server);
        })
    };
    Subject {
        store: Arc::new(store),
        pass: Box::new(pass),
    }
}

/// All that a store does.
mod with_the_rights_of_the_template {
    use super::subject;

    cairn_memory::conformance!(subject);
}

#[tokio::test]
async fn an_open_server_is_told_of_whatever_its_address() {
    let server = RedisServer::start();
    // An address that this machine does not have, so that nobody else gets in for all that.
    for (name, value) in [("protected-mode", "no"), ("bind", "127.0.0.1 -192.0.2.1")] {
        assert_eq!(server.ask(&["CONFIG", "SET", name, value]), "+OK\r\n");
    }
    for (config, is_told) in [
        (RedisConfig::standalone(server.url()), true),
        (
            // A password does not help if none is asked for.
            RedisConfig::standalone(server.url().replace("//", "//:any@")),
            true,
        ),
        (
            RedisConfig {
                allow_exposed: true,
                ..RedisConfig::standalone(server.url())
            },
            false,
        ),
    ] {
        let durability = RedisStore::examine(&config).await.unwrap();
        let reasons = durability.to_string();
        assert_eq!(reasons.contains("lets everybody in"), is_told, "{reasons}");
    }
    server.ask(&["CONFIG", "SET", "requirepass", "secret"]);
    let config = RedisConfig::standalone(server.url().replace("//", "//:secret@"));
    let durability = RedisStore::examine(&config).await.unwrap();
    assert_eq!(durability, Durability::Durable);
}

#[tokio::test]
async fn the_time_of_the_server_passes() {
    conformance::time_is_told_and_passes(&timed_subject().await).await;
    conformance::an_expired_lease_is_claimed_with_a_higher_epoch(&timed_subject().await).await;
}
