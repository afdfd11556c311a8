//! Single calls: answers, errors, limits, deadlines, panics.

use crate::demo::{Client, DESCRIPTORS, ECHO, refusal, text};
use crate::stand::{Kind, Stand, within};
use cairn_rpc::{Address, Deadlines, ErrorKind, Link, MAX_MESSAGE_BYTES, RpcError};
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::{Code, Request};

#[tokio::test]
async fn a_call_is_answered() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        assert_eq!(stand.client().echo("hello").await.unwrap(), "hello");
    }
}

#[tokio::test]
async fn an_error_arrives_with_all_its_details() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let error = RpcError::from(stand.client().echo("fail").await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{kind:?}");
        assert_eq!(error.reason_name(), "DEMO_REFUSED");
        assert_eq!(error.violations(), refusal().violations());
        assert_eq!(error.retry_delay(), Some(Duration::from_secs(2)));
        assert_eq!(error.metadata("colour"), Some("red"));
        assert_eq!(
            error.message(),
            "text is \"fail\" (allowed: any other text)"
        );
    }
}

#[tokio::test]
async fn an_unknown_method_is_unimplemented() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        for path in [
            "/cairn.test.v1.DemoService/Nothing",
            "/cairn.none.v1.NoService/Echo",
            "/",
        ] {
            let mut client = stand.client();
            let status = client.call(path, Request::new(text(""))).await.unwrap_err();
            let code = status.code();
            assert_eq!(code, Code::Unimplemented, "{kind:?} {path}");
        }
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_the_server_lives() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let mut client = stand.client();
        let error = RpcError::from(client.echo("panic").await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Internal, "{kind:?}");
        assert_eq!(error.reason_name(), "HANDLER_PANICKED");
        assert!(!error.to_string().contains("secrets"));
        assert_eq!(client.echo("still there").await.unwrap(), "still there");
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let mut client = stand.client();
        let status = client
            .echo(&"x".repeat(MAX_MESSAGE_BYTES))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange, "{kind:?}");
        let largest = "x".repeat(MAX_MESSAGE_BYTES - 5);
        assert_eq!(client.echo(&largest).await.unwrap().len(), largest.len());
    }
}

/// The HTTP/2 library refuses headers beyond 64 KiB by itself, and the guard beyond 16 KiB.
#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let mut client = stand.client();
        for bytes in [17 * 1024, 60 * 1024, 70 * 1024] {
            let mut request = Request::new(text("hello"));
            let large = "x".repeat(bytes).parse().unwrap();
            request.metadata_mut().insert("padding", large);
            let status = within(client.call(ECHO, request)).await.unwrap_err();
            let error = RpcError::from(status);
            assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{kind:?}");
            assert_eq!(error.reason_name(), "METADATA_TOO_LARGE", "{bytes}");
            assert!(error.message().contains("at most 16384 bytes"), "{error}");
        }
        let mut request = Request::new(text("hello"));
        let large = "x".repeat(15 * 1024).parse().unwrap();
        request.metadata_mut().insert("padding", large);
        let answer = within(client.call(ECHO, request)).await.unwrap();
        assert_eq!(answer, "hello", "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_on_both_sides() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let mut client = stand.client();
        client.echo("connected").await.unwrap();
        let mut request = Request::new(text("hang"));
        request.set_timeout(Duration::from_millis(200));
        let status = within(client.call(ECHO, request)).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{kind:?}");
        assert_eq!(stand.notice().await, "hang begun");
        assert_eq!(stand.notice().await, "hang over");
    }
}

#[tokio::test]
async fn a_stream_ends_at_its_deadline() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let mut client = stand.client();
        client.echo("connected").await.unwrap();
        let set_timeout =
            |request: &mut Request<_>| request.set_timeout(Duration::from_millis(200));
        let (_say, mut received) = client.chat_with(set_timeout).await.unwrap();
        let status = within(received.message()).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{kind:?}");
        assert_eq!(stand.notice().await, "chat over");
    }
}

#[tokio::test]
async fn a_link_gives_unary_calls_a_deadline() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let mut bare = stand.client();
        assert_eq!(bare.echo("deadline").await.unwrap(), "none");

        let minute = Deadlines::new(Duration::from_secs(60), &[&DESCRIPTORS]).unwrap();
        let mut client = Client::new(stand.link.clone().with_deadlines(minute));
        assert_eq!(client.echo("deadline").await.unwrap(), "true", "{kind:?}");
        let mut request = Request::new(text("deadline"));
        request.set_timeout(Duration::from_secs(3600));
        assert_eq!(client.call(ECHO, request).await.unwrap(), "false");

        let (say, mut received) = client.chat().await.unwrap();
        say.send(text("deadline")).await.unwrap();
        assert_eq!(received.message().await.unwrap().unwrap().text, "none");
    }
}

#[tokio::test]
async fn without_a_server_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = Address::from(closed.local_addr().unwrap());
    drop(closed);
    for address in [nowhere, Address::unix(folder.path().join("no.sock"))] {
        let mut client = Client::new(Link::remote(&address));
        let error = RpcError::from(client.echo("hello").await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{address}");
        assert_eq!(error.reason_name(), Link::NOT_CONNECTED, "{error}");
    }
}

#[tokio::test]
async fn a_link_connects_as_soon_as_there_is_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.sock");
    let mut client = Client::new(Link::remote(&Address::unix(&path)));
    assert!(client.echo("hello").await.is_err());

    let stand = Stand::internal(Kind::Local).await;
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let forever = std::future::pending();
    let serving = stand.server.serve(listener.into(), forever, Duration::ZERO);
    tokio::select! {
        _ = serving => panic!("the server ended"),
        answer = within(client.echo("hello")) => assert_eq!(answer.unwrap(), "hello"),
    }
}
