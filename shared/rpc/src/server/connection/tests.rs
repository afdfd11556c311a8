use super::*;
use crate::address::Address;
use crate::link::{Link, RemoteOptions};
use crate::principal::AllowAnonymous;
use crate::server::listener::serve_with;
use crate::server::{Exposure, ServerBuilder};
use crate::token::{RequireToken, Token};
use futures::StreamExt;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{advance, pause, resume};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// More than a timer's precision.
const SECOND: Duration = Duration::from_secs(1);

/// A connection from both of its ends.
async fn pair(cut: CancellationToken) -> (Connection, UnixStream, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let client = UnixStream::connect(&path).await.unwrap();
    let mut accepted = Box::pin(incoming(listener.into(), Limits::default(), cut));
    (accepted.next().await.unwrap().unwrap(), client, folder)
}

/// The next byte, if there is one without waiting.
async fn next(connection: &mut Connection) -> Option<io::Result<u8>> {
    tokio::select! {
        biased;
        read = connection.read_u8() => Some(read),
        () = std::future::ready(()) => None,
    }
}

/// Lets time pass. A clock that stays paused jumps ahead while a test waits for the socket.
async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

async fn send(client: &mut UnixStream, connection: &mut Connection, bytes: usize) {
    client.write_all(&vec![b'P'; bytes]).await.unwrap();
    let mut text = vec![0; bytes];
    connection.read_exact(&mut text).await.unwrap();
}

/// Linux gives each thread a user of its own, and a socket is of the user that connects it.
#[tokio::test]
async fn the_user_at_the_other_end_of_a_unix_socket_is_the_peer() {
    let own = rustix::process::geteuid();
    let (connection, _client, folder) = pair(CancellationToken::new()).await;
    assert_eq!(connection.info.peer, Peer::Unix { uid: own.as_raw() });
    if !own.is_root() {
        println!("NOT RUN: only root can be another user, too");
        return;
    }
    let path = folder.path().join("other");
    let listener = UnixListener::bind(&path).unwrap();
    for path in [folder.path(), &path] {
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let client = std::thread::spawn(move || {
        let other = rustix::thread::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(other, other, other).unwrap();
        std::os::unix::net::UnixStream::connect(path).unwrap()
    });
    let _client = client.join().unwrap();
    let mut accepted = Box::pin(incoming(
        listener.into(),
        Limits::default(),
        CancellationToken::new(),
    ));
    let peer = accepted.next().await.unwrap().unwrap().info.peer;
    assert_eq!(peer.principal(), Some(Principal::socket(65534)));
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_opening_is_cut_off() {
    let (mut connection, mut client, _folder) = pair(CancellationToken::new()).await;
    send(&mut client, &mut connection, OPENING_BYTES - 1).await;
    assert!(next(&mut connection).await.is_none());
    pass(Limits::default().opening + SECOND).await;
    let error = next(&mut connection).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_connection_without_a_call_ends_and_pings_do_not_keep_it() {
    let (mut connection, mut client, _folder) = pair(CancellationToken::new()).await;
    send(&mut client, &mut connection, OPENING_BYTES).await;
    let minute = Duration::from_secs(60);
    for _ in 0..4 {
        pass(minute).await;
        send(&mut client, &mut connection, 17).await;
        assert!(next(&mut connection).await.is_none());
    }
    pass(minute + SECOND).await;
    let end = next(&mut connection).await.unwrap().unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_connection_with_a_call_stays_until_five_minutes_after_the_last_one() {
    let (mut connection, mut client, _folder) = pair(CancellationToken::new()).await;
    send(&mut client, &mut connection, OPENING_BYTES).await;
    let (one, two) = (connection.info.calls.open(), connection.info.calls.open());
    let idle = Limits::default().idle;
    pass(idle * 10).await;
    assert!(next(&mut connection).await.is_none());
    drop(one);
    pass(idle * 10).await;
    assert!(next(&mut connection).await.is_none());
    drop(two);
    pass(idle - SECOND).await;
    assert!(next(&mut connection).await.is_none());
    pass(2 * SECOND).await;
    assert!(next(&mut connection).await.unwrap().is_err());
}

#[tokio::test]
async fn a_cut_connection_stops_reading() {
    let cut = CancellationToken::new();
    let (mut connection, _client, _folder) = pair(cut.clone()).await;
    let reading = tokio::spawn(async move { connection.read_u8().await });
    cut.cancel();
    let error = reading.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
}

/// A streamed answer is an open call until it has ended, however quiet it is.
#[tokio::test]
async fn a_stream_keeps_its_connection() {
    let server = ServerBuilder::new(Exposure::Public(None));
    let server = server.build().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = Listener::from(UnixListener::bind(&path).unwrap());
    let limits = Limits {
        idle: Duration::from_millis(100),
        ..Limits::default()
    };
    let routes = server.routes.clone();
    let never = std::future::pending();
    let serving = serve_with(listener, limits, routes, 8, never, Duration::ZERO);
    let _serving = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(serving));

    let mut health = HealthClient::new(Link::remote(&Address::unix(&path)));
    let watch = health.watch(HealthCheckRequest::default()).await;
    let mut watch = watch.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();

    // A later connection without a call ends before the earlier one with a call.
    let mut idle = UnixStream::connect(&path).await.unwrap();
    let opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    idle.write_all(opening).await.unwrap();
    let mut received = Vec::new();
    idle.read_to_end(&mut received).await.unwrap();

    server.health().set("part", false).await;
    let reported = watch.message().await.unwrap().unwrap();
    assert_eq!(reported.status(), ServingStatus::NotServing);
}

/// Health asks for no token. Who watches it without one has no place for long.
#[tokio::test]
async fn an_unauthenticated_connection_ends_whatever_it_watches() {
    let token = Token::random().unwrap();
    let exposure = Exposure::Services(Arc::new(RequireToken::new(&token, "")));
    let server = ServerBuilder::new(exposure).build().await.unwrap();
    let listener = Listener::from(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.address().unwrap();
    let limits = Limits {
        unauthenticated: Duration::from_millis(100),
        ..Limits::default()
    };
    let routes = server.routes.clone();
    let never = std::future::pending();
    let serving = serve_with(listener, limits, routes, 8, never, Duration::ZERO);
    let _serving = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(serving));
    let watch = async |options: RemoteOptions| {
        let mut health = HealthClient::new(Link::remote_with(&address, &options));
        let watch = health.watch(HealthCheckRequest::default()).await;
        let mut watch = watch.unwrap().into_inner();
        watch.message().await.unwrap().unwrap();
        (health, watch)
    };
    let (_known, mut watched) = watch(RemoteOptions {
        tokens: Some(Arc::new(token)),
        ..RemoteOptions::default()
    })
    .await;
    let (_other, mut ended) = watch(RemoteOptions::default()).await;
    assert!(ended.message().await.is_err());
    server.health().set("part", false).await;
    let reported = watched.message().await.unwrap().unwrap();
    assert_eq!(reported.status(), ServingStatus::NotServing);
}

/// A listener for every client admits its callers, so idle links keep their connections.
#[tokio::test]
async fn a_listener_that_needs_no_token_keeps_connections_that_watch_its_health() {
    let exposure = Exposure::Public(Some(Arc::new(AllowAnonymous)));
    let server = ServerBuilder::new(exposure).build().await.unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = tcp.local_addr().unwrap();
    let listener = Listener::from(tcp);
    let address = listener.address().unwrap();
    let limits = Limits {
        unauthenticated: Duration::from_millis(100),
        ..Limits::default()
    };
    let routes = server.routes.clone();
    let never = std::future::pending();
    let serving = serve_with(listener, limits, routes, 8, never, Duration::ZERO);
    let _serving = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(serving));
    let mut health = HealthClient::new(Link::remote(&address));
    let watch = health.watch(HealthCheckRequest::default()).await;
    let mut watch = watch.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();

    // A later connection without a call ends before the earlier one would.
    let mut idle = TcpStream::connect(place).await.unwrap();
    let opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    idle.write_all(opening).await.unwrap();
    let _ = idle.read_to_end(&mut Vec::new()).await;

    server.health().set("part", false).await;
    let reported = watch.message().await.unwrap().unwrap();
    assert_eq!(reported.status(), ServingStatus::NotServing);
}
