//! Who the caller is: taken from where it may be taken, and from nowhere else.

use crate::demo::{ECHO, forged, text};
use crate::stand::{Kind, LONG, Stand};
use cairn_rpc::{
    Authenticate, DefaultNamespace, ErrorKind, Exposure, Identity, NAMESPACE_HEADER, Peer,
    RpcError, with_namespace,
};
use std::sync::Arc;
use tonic::Request;

fn whoami() -> Request<crate::demo::Text> {
    Request::new(text("whoami"))
}

fn team() -> cairn_rpc::Namespace {
    "team-1".parse().unwrap()
}

#[tokio::test]
async fn between_services_the_namespace_travels_in_the_header() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let request = with_namespace(whoami(), &team());
        let answer = stand.client().call(ECHO, request).await.unwrap();
        assert_eq!(answer, "team-1 with header", "{kind:?}");
    }
}

#[tokio::test]
async fn between_services_nobody_is_in_a_namespace_by_default() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let mut request = whoami();
        request.extensions_mut().insert(forged());
        let status = stand.client().call(ECHO, request).await.unwrap_err();
        let error = RpcError::from(status);
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{kind:?}");
        assert_eq!(error.reason_name(), "NAMESPACE_MISSING");
    }
}

#[tokio::test]
async fn between_services_a_broken_header_is_refused() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        for values in [vec!["Team 1"], vec![""], vec!["a", "b"]] {
            let mut request = whoami();
            for value in values {
                let value = value.parse().unwrap();
                request.metadata_mut().append(NAMESPACE_HEADER, value);
            }
            let status = stand.client().call(ECHO, request).await.unwrap_err();
            let error = RpcError::from(status);
            assert_eq!(error.reason_name(), "NAMESPACE_INVALID", "{kind:?}");
        }
    }
}

#[tokio::test]
async fn from_outside_a_namespace_header_counts_for_nothing() {
    for kind in Kind::ALL {
        let public = Exposure::Public(Arc::new(DefaultNamespace));
        let stand = Stand::new(kind, public, LONG).await;
        let mut request = with_namespace(whoami(), &team());
        request.extensions_mut().insert(forged());
        let answer = stand.client().call(ECHO, request).await.unwrap();
        assert_eq!(answer, "default without header", "{kind:?}");
    }
}

/// Lets the owner of a token in, and must see neither a namespace nor a forged identity.
struct Tokens;

impl Authenticate for Tokens {
    fn authenticate(&self, request: &http::request::Parts) -> Result<Identity, RpcError> {
        assert!(!request.headers.contains_key(NAMESPACE_HEADER));
        assert!(request.extensions.get::<Identity>().is_none());
        match request.headers.get("authorization") {
            Some(token) if token == "Bearer good" => Ok(Identity::new(team())),
            _ => Err(RpcError::new(ErrorKind::Unauthenticated, "no such token")),
        }
    }
}

#[tokio::test]
async fn from_outside_the_authenticator_decides() {
    for kind in Kind::ALL {
        let stand = Stand::new(kind, Exposure::Public(Arc::new(Tokens)), LONG).await;
        let mut client = stand.client();
        let mut request = with_namespace(whoami(), &"other".parse().unwrap());
        request.extensions_mut().insert(forged());
        let status = client.call(ECHO, request).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unauthenticated, "{kind:?}");

        let mut request = whoami();
        let token = "Bearer good".parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        let answer = client.call(ECHO, request).await.unwrap();
        assert_eq!(answer, "team-1 without header");
    }
}

#[tokio::test]
async fn a_handler_sees_where_a_call_came_from() {
    let peer = |kind| async move { Stand::internal(kind).await.client().echo("peer").await };
    assert_eq!(peer(Kind::Local).await.unwrap(), "None");
    assert_eq!(
        peer(Kind::Unix).await.unwrap(),
        format!("{:?}", Some(Peer::Unix))
    );
    assert!(
        peer(Kind::Tcp)
            .await
            .unwrap()
            .starts_with("Some(Tcp(127.0.0.1:")
    );
}
