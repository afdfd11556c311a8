//! Who the caller is: taken from where it may be taken, and from nowhere else.

use crate::demo::{Client, ECHO, forged, text};
use crate::stand::{Kind, LONG, Stand};
use async_trait::async_trait;
use cairn_rpc::{
    Address, Authenticate, DefaultNamespace, ErrorKind, Exposure, FindToken, Identity, Link,
    NAMESPACE_HEADER, Peer, RemoteOptions, RequireToken, RpcError, Token, with_namespace,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
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

#[async_trait]
impl Authenticate for Tokens {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Identity, RpcError> {
        assert!(!request.headers.contains_key(NAMESPACE_HEADER));
        assert!(request.extensions.get::<Identity>().is_none());
        assert!(request.extensions.get::<Peer>().is_some());
        // The decision may take its time.
        tokio::task::yield_now().await;
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

/// Takes longer than anybody waits.
struct Never;

#[async_trait]
impl Authenticate for Never {
    async fn authenticate(&self, _: &http::request::Parts) -> Result<Identity, RpcError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_decision_ends_at_the_deadline_of_the_call() {
    for kind in Kind::ALL {
        let stand = Stand::new(kind, Exposure::Services(Arc::new(Never)), LONG).await;
        let mut request = whoami();
        request.set_timeout(Duration::from_millis(50));
        let status = stand.client().call(ECHO, request).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{kind:?}");
    }
}

const TOKEN: &str = "canary-0123456789";

fn required() -> Arc<RequireToken> {
    let token: Token = TOKEN.parse().unwrap();
    Arc::new(RequireToken::new(&token, "it is in FILE"))
}

#[tokio::test]
async fn a_listener_on_tcp_needs_a_token_and_others_do_not() {
    for exposure in [Exposure::Public(required()), Exposure::Services(required())] {
        for kind in Kind::ALL {
            let stand = Stand::new(kind, exposure.clone(), LONG).await;
            let request = with_namespace(whoami(), &team());
            let answer = stand.client().call(ECHO, request).await;
            let is_tcp = matches!(kind, Kind::Tcp | Kind::Service);
            let reason = answer.map_err(RpcError::from).err();
            let reason = reason.as_ref().map(RpcError::reason_name);
            let wanted = is_tcp.then_some(RequireToken::MISSING);
            assert_eq!(reason, wanted, "{exposure:?} {kind:?}");
        }
    }
}

#[tokio::test]
async fn links_carry_the_token_and_handlers_do_not_see_it() {
    for kind in [Kind::Tcp, Kind::Service] {
        let stand = Stand::new(kind, Exposure::Services(required()), LONG).await;
        let address = stand.address.clone().unwrap();
        let link = |text: &str| {
            let token: Token = text.parse().unwrap();
            let options = RemoteOptions::default().with_tokens(Arc::new(token));
            match kind {
                Kind::Service => Link::to_service("demo", std::slice::from_ref(&address), options),
                _ => Link::remote_with(&address, &options),
            }
        };
        let call = |link: Link, said: &'static str| {
            let request = with_namespace(Request::new(text(said)), &team());
            async move { Client::new(link).call(ECHO, request).await }
        };
        let answer = call(link(TOKEN), "authorization").await.unwrap();
        assert_eq!(answer, "None", "{kind:?}");
        let status = call(link("canary-9876543210"), "whoami").await.unwrap_err();
        let error = RpcError::from(status);
        assert_eq!(error.reason_name(), RequireToken::WRONG, "{kind:?}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

/// The token file of a process that starts anew, and then has another token.
#[derive(Debug)]
struct Renewed(Mutex<Vec<&'static str>>);

impl FindToken for Renewed {
    fn find(&self, _: &Address) -> Option<Token> {
        let next = self.0.lock().unwrap().pop()?;
        Some(next.parse().unwrap())
    }
}

#[tokio::test]
async fn a_call_with_the_token_of_yesterday_did_not_begin_and_its_retry_succeeds() {
    for kind in [Kind::Tcp, Kind::Service] {
        let stand = Stand::new(kind, Exposure::Services(required()), LONG).await;
        let address = stand.address.clone().unwrap();
        let tokens = Renewed(Mutex::new(vec![TOKEN, "canary-9876543210"]));
        let options = RemoteOptions::default().with_tokens(Arc::new(tokens));
        let link = match kind {
            Kind::Service => Link::to_service("demo", &[address], options),
            _ => Link::remote_with(&address, &options),
        };
        let call = || {
            let request = with_namespace(whoami(), &team());
            let mut client = Client::new(link.clone());
            async move { client.call(ECHO, request).await }
        };
        let error = RpcError::from(call().await.unwrap_err());
        assert_eq!(error.reason_name(), RequireToken::WRONG, "{kind:?}");
        assert!(Link::did_not_begin(&error), "{kind:?}");
        call().await.unwrap();
    }
}

#[test]
fn a_refusal_by_another_authenticator_is_final() {
    let other = RpcError::new(ErrorKind::Unauthenticated, "no such person");
    assert!(!Link::did_not_begin(&other));
    let broken = RpcError::unavailable("gone").reason(Link::BROKEN);
    assert!(!Link::did_not_begin(&broken));
}

#[tokio::test]
async fn a_server_without_an_authenticator_admits_nothing_over_tcp() {
    for kind in Kind::ALL {
        let stand = Stand::new(kind, Exposure::Internal, LONG).await;
        let request = with_namespace(whoami(), &team());
        let answer = stand.client().call(ECHO, request).await;
        let is_tcp = matches!(kind, Kind::Tcp | Kind::Service);
        assert_eq!(answer.is_err(), is_tcp, "{kind:?}");
    }
}

#[tokio::test]
async fn a_handler_sees_where_a_call_came_from() {
    let peer = |kind| async move { Stand::internal(kind).await.client().echo("peer").await };
    assert_eq!(
        peer(Kind::Local).await.unwrap(),
        format!("{:?}", Some(Peer::Local))
    );
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
