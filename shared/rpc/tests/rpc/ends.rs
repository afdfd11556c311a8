//! How streams, connections and servers end.

use crate::demo::text;
use crate::stand::{Kind, LONG, Stand, services, within};
use cairn_rpc::{ErrorKind, Link, RpcError};
use std::time::Duration;
use tonic::Code;

/// Bytes of a message that no connection takes before its client reads.
const LENGTH: usize = 3 * 1024 * 1024;

#[tokio::test]
async fn a_stream_goes_back_and_forth_until_the_client_is_done() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let (say, mut received) = stand.client().chat().await.unwrap();
        for number in 0..100 {
            say.send(text(number.to_string())).await.unwrap();
            let answer = received.message().await.unwrap().unwrap();
            assert_eq!(answer.text, number.to_string());
        }
        drop(say);
        assert_eq!(within(received.message()).await.unwrap(), None, "{kind:?}");
        assert_eq!(stand.notice().await, "chat over");
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_client_drops_it() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let (say, received) = stand.client().chat().await.unwrap();
        drop((say, received));
        assert_eq!(stand.notice().await, "chat over", "{kind:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_when_the_server_ends_it() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let (say, mut received) = stand.client().chat().await.unwrap();
        say.send(text("end")).await.unwrap();
        assert_eq!(within(received.message()).await.unwrap(), None, "{kind:?}");
        assert_eq!(stand.notice().await, "chat over");
        drop(received);
        within(say.closed()).await;
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_servers_error() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let (say, mut received) = stand.client().chat().await.unwrap();
        say.send(text("one")).await.unwrap();
        assert_eq!(received.message().await.unwrap().unwrap().text, "one");
        say.send(text("fail")).await.unwrap();
        let error = RpcError::from(within(received.message()).await.unwrap_err());
        assert_eq!(error.reason_name(), "DEMO_REFUSED", "{kind:?}");
        assert_eq!(stand.notice().await, "chat over");
    }
}

/// The server drops the rest of a message, and the stream with it, to have room for others.
#[tokio::test]
async fn a_client_that_does_not_read_a_long_message_loses_the_rest() {
    for kind in Kind::SOCKETS {
        let mut stand = Stand::internal(kind).await;
        let mut client = stand.client();
        let (say, mut received) = client.chat().await.unwrap();
        say.send(text("x".repeat(LENGTH))).await.unwrap();
        let unsent = stand.unsent().await;
        assert!(unsent.discard() > LENGTH / 2, "{kind:?}");
        // The handler's stream is gone before the client reads on.
        assert_eq!(stand.notice().await, "chat over", "{kind:?}");
        let error = RpcError::from(within(received.message()).await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{kind:?}");
        assert_eq!(error.reason_name(), RpcError::READS_TOO_SLOWLY, "{error}");
        assert_eq!(client.echo("still there").await.unwrap(), "still there");
    }
}

/// The message that the connection takes in slices has the stream, and must not keep it.
#[tokio::test]
async fn a_stream_ends_when_the_client_drops_it_within_a_long_message() {
    for kind in Kind::SOCKETS {
        let mut stand = Stand::internal(kind).await;
        let (say, received) = stand.client().chat().await.unwrap();
        say.send(text("x".repeat(LENGTH))).await.unwrap();
        let unsent = stand.unsent().await;
        drop((say, received));
        assert_eq!(stand.notice().await, "chat over", "{kind:?}");
        assert_eq!(unsent.bytes(), 0, "{kind:?}");
    }
}

#[tokio::test]
async fn a_long_message_is_read_whole() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let (say, mut received) = stand.client().chat().await.unwrap();
        for letter in ["x", "y"] {
            let long = letter.repeat(LENGTH);
            say.send(text(long.clone())).await.unwrap();
            let answer = within(received.message()).await.unwrap().unwrap();
            assert!(answer.text == long, "{kind:?}: {} bytes", answer.text.len());
        }
        drop(say);
        assert_eq!(within(received.message()).await.unwrap(), None, "{kind:?}");
    }
}

#[tokio::test]
async fn a_panic_in_a_stream_is_an_internal_error() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let mut client = stand.client();
        let (say, mut received) = client.chat().await.unwrap();
        say.send(text("panic")).await.unwrap();
        let error = RpcError::from(within(received.message()).await.unwrap_err());
        assert_eq!(error.reason_name(), "HANDLER_PANICKED", "{kind:?}");
        assert_eq!(stand.notice().await, "chat over");
        assert_eq!(client.echo("still there").await.unwrap(), "still there");
    }
}

#[tokio::test]
async fn a_call_that_its_caller_drops_ends_on_the_server() {
    for kind in Kind::ALL {
        let mut stand = Stand::internal(kind).await;
        let mut client = stand.client();
        tokio::select! {
            answer = client.echo("hang") => panic!("{answer:?}"),
            notice = stand.notice() => assert_eq!(notice, "hang begun"),
        }
        assert_eq!(stand.notice().await, "hang over", "{kind:?}");
    }
}

#[tokio::test]
async fn when_a_server_dies_its_calls_break() {
    for kind in Kind::SOCKETS {
        let mut stand = Stand::internal(kind).await;
        let mut client = stand.client();
        let (say, mut received) = client.chat().await.unwrap();
        say.send(text("hello")).await.unwrap();
        received.message().await.unwrap();

        stand.serving.take().unwrap().abort();
        let error = RpcError::from(within(received.message()).await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{kind:?}");
        assert_eq!(error.reason_name(), Link::BROKEN, "{error}");
        assert_eq!(stand.notice().await, "chat over");
        let error = RpcError::from(within(client.echo("hello")).await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{kind:?}");
    }
}

#[tokio::test]
async fn a_stopping_server_lets_running_calls_end() {
    for kind in Kind::SOCKETS {
        let mut stand = Stand::new(kind, services(), LONG).await;
        let (say, mut received) = stand.client().chat().await.unwrap();
        say.send(text("before")).await.unwrap();
        assert_eq!(received.message().await.unwrap().unwrap().text, "before");
        stand.shutdown.cancel();
        say.send(text("after")).await.unwrap();
        let answer = within(received.message()).await.unwrap().unwrap();
        assert_eq!(answer.text, "after", "{kind:?}");
        drop(say);
        assert_eq!(within(received.message()).await.unwrap(), None);
        stand.ended().await;
    }
}

#[tokio::test]
async fn a_stopping_server_cuts_what_does_not_end() {
    for kind in Kind::SOCKETS {
        let mut stand = Stand::new(kind, services(), Duration::from_millis(20)).await;
        let (say, mut received) = stand.client().chat().await.unwrap();
        say.send(text("hello")).await.unwrap();
        received.message().await.unwrap();
        stand.shutdown.cancel();
        stand.ended().await;
        let status = within(received.message()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{kind:?}");
        assert_eq!(stand.notice().await, "chat over");
    }
}
