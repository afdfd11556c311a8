//! Who the caller is: taken from where it may be taken, and from nowhere else.

use crate::demo::{Client, DESCRIPTORS, Demo, ECHO, forged, text};
use crate::stand::{Kind, LONG, Stand, within};
use async_trait::async_trait;
use cairn_rpc::{
    Address, AllowAnonymous, Authenticate, Authentication, ErrorKind, Exposure, FindToken, Link,
    NAMESPACE_HEADER, PRINCIPAL_HEADER, Peer, Principal, RemoteOptions, RequireToken, RpcError,
    ServerBuilder, Token, with_principal,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::Request;

fn whoami() -> Request<crate::demo::Text> {
    Request::new(text("whoami"))
}

fn team() -> cairn_rpc::Namespace {
    "team-1".parse().unwrap()
}

/// A service that acts for the team.
fn service() -> Principal {
    Principal::service("planner", team())
}

/// Made for the team by the words of headers, as from another process.
fn headed() -> Request<crate::demo::Text> {
    let mut request = whoami();
    for (name, value) in [
        (NAMESPACE_HEADER, "team-1"),
        (PRINCIPAL_HEADER, "service planner"),
    ] {
        request.metadata_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// How many headers say who calls, between services.
fn headers(kind: Kind) -> usize {
    match kind {
        Kind::Local => 0,
        Kind::Tcp | Kind::Unix | Kind::Service => 2,
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

async fn refusal(stand: &Stand, request: Request<crate::demo::Text>) -> RpcError {
    stand.client().call(ECHO, request).await.unwrap_err().into()
}

#[tokio::test]
async fn between_services_the_principal_travels_and_on_wires_in_headers() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let person = Principal::new(Authentication::Socket, "uid:1000", team()).unwrap();
        for (principal, shown) in [(service(), "Service planner"), (person, "Socket uid:1000")] {
            let request = with_principal(whoami(), &principal);
            let answer = stand.client().call(ECHO, request).await.unwrap();
            let headers = headers(kind);
            assert_eq!(
                answer,
                format!("{shown} in team-1, {headers} headers"),
                "{kind:?}"
            );
        }
        let answer = stand.client().call(ECHO, headed()).await.unwrap();
        assert_eq!(answer, "Service planner in team-1, 2 headers", "{kind:?}");
    }
}

#[tokio::test]
async fn between_services_nobody_is_a_principal_by_default() {
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let missing = |header, reason| {
            let mut request = headed();
            request.metadata_mut().remove(header);
            request.extensions_mut().insert(forged());
            (request, reason)
        };
        for (request, reason) in [
            missing(NAMESPACE_HEADER, "NAMESPACE_MISSING"),
            missing(PRINCIPAL_HEADER, "PRINCIPAL_MISSING"),
        ] {
            let error = refusal(&stand, request).await;
            assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{kind:?}");
            assert_eq!(error.reason_name(), reason);
        }
    }
}

#[tokio::test]
async fn between_services_a_broken_header_is_refused() {
    let namespaces = [vec!["Team 1"], vec![""], vec!["a", "b"]];
    let principals = [
        vec![""],
        vec!["socket"],
        vec!["socket "],
        vec!["socket  uid:1"],
        vec!["uid:1"],
        vec!["Socket uid:1"],
        vec!["person uid:1"],
        vec!["socket uid:1 "],
        vec!["socket uid:1 or so"],
        vec!["socket uid:1", "socket uid:1"],
    ];
    for kind in Kind::ALL {
        let stand = Stand::internal(kind).await;
        let namespaces = namespaces.iter().map(|values| (NAMESPACE_HEADER, values));
        let principals = principals.iter().map(|values| (PRINCIPAL_HEADER, values));
        for (header, values) in namespaces.chain(principals) {
            let mut request = headed();
            request.metadata_mut().remove(header);
            for value in values {
                let value = value.parse().unwrap();
                request.metadata_mut().append(header, value);
            }
            let error = refusal(&stand, request).await;
            let wanted = match header {
                NAMESPACE_HEADER => (ErrorKind::InvalidArgument, "NAMESPACE_INVALID"),
                _ => (ErrorKind::Unauthenticated, "PRINCIPAL_INVALID"),
            };
            let found = (error.kind(), error.reason_name());
            assert_eq!(found, wanted, "{kind:?} {values:?}");
        }
    }
}

#[tokio::test]
async fn from_outside_headers_count_for_nothing() {
    for (kind, shown) in [
        (Kind::Local, format!("Process uid:{}", own_uid())),
        (Kind::Unix, format!("Socket uid:{}", own_uid())),
        (Kind::Tcp, "Anonymous anonymous".to_owned()),
        (Kind::Service, "Anonymous anonymous".to_owned()),
    ] {
        let public = Exposure::Public(Some(Arc::new(AllowAnonymous)));
        let stand = Stand::new(kind, public, LONG).await;
        let mut request = with_principal(headed(), &service());
        request.extensions_mut().insert(forged());
        let answer = stand.client().call(ECHO, request).await.unwrap();
        assert_eq!(answer, format!("{shown} in default, 0 headers"), "{kind:?}");
    }
}

/// Lets the owner of a token in, and must see neither headers nor a forged principal.
struct Tokens;

#[async_trait]
impl Authenticate for Tokens {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Principal, RpcError> {
        assert!(!request.headers.contains_key(NAMESPACE_HEADER));
        assert!(!request.headers.contains_key(PRINCIPAL_HEADER));
        assert!(request.extensions.get::<Principal>().is_none());
        assert!(request.extensions.get::<Peer>().is_some());
        // The decision may take its time.
        tokio::task::yield_now().await;
        match request.headers.get("authorization") {
            Some(token) if token == "Bearer good" => {
                Principal::new(Authentication::Token, "anne", team())
            }
            _ => Err(RpcError::new(ErrorKind::Unauthenticated, "no such token")),
        }
    }
}

#[tokio::test]
async fn from_outside_the_authenticator_decides() {
    for kind in Kind::ALL {
        let stand = Stand::new(kind, Exposure::Public(Some(Arc::new(Tokens))), LONG).await;
        let mut request = with_principal(headed(), &service());
        request.extensions_mut().insert(forged());
        let error = refusal(&stand, request).await;
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{kind:?}");

        let mut request = whoami();
        let token = "Bearer good".parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        let answer = stand.client().call(ECHO, request).await.unwrap();
        assert_eq!(answer, "Token anne in team-1, 0 headers");
    }
}

/// Takes longer than anybody waits.
struct Never;

#[async_trait]
impl Authenticate for Never {
    async fn authenticate(&self, _: &http::request::Parts) -> Result<Principal, RpcError> {
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

#[tokio::test]
async fn an_internal_link_asks_no_authenticator_and_has_the_services_registered_before_it() {
    let call = |link| async move {
        let mut client = Client::new(link);
        let answer = client.call(ECHO, with_principal(whoami(), &service()));
        answer.await.map_err(|status| RpcError::from(status).kind())
    };
    let (notices, _) = mpsc::unbounded_channel();
    let builder = ServerBuilder::new(Exposure::Services(Arc::new(Never)));
    let early = builder.internal_link();
    let builder = builder.register(Demo::new(notices), &DESCRIPTORS);
    let answer = call(builder.internal_link()).await;
    assert_eq!(
        answer.as_deref(),
        Ok("Service planner in team-1, 0 headers")
    );
    assert_eq!(call(early).await, Err(ErrorKind::Unimplemented));
}

const TOKEN: &str = "canary-0123456789";

fn required() -> Arc<RequireToken> {
    let token: Token = TOKEN.parse().unwrap();
    Arc::new(RequireToken::new(&token, "it is in FILE"))
}

#[tokio::test]
async fn a_listener_on_tcp_needs_a_token_and_others_do_not() {
    let public = Exposure::Public(Some(required()));
    for exposure in [public, Exposure::Services(required())] {
        for kind in Kind::ALL {
            let stand = Stand::new(kind, exposure.clone(), LONG).await;
            let request = with_principal(whoami(), &service());
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
async fn from_outside_the_system_or_the_token_names_the_caller() {
    for (kind, shown) in [
        (Kind::Local, format!("Process uid:{}", own_uid())),
        (Kind::Unix, format!("Socket uid:{}", own_uid())),
        (Kind::Tcp, "Token token".to_owned()),
        (Kind::Service, "Token token".to_owned()),
    ] {
        let stand = Stand::new(kind, Exposure::Public(Some(required())), LONG).await;
        let mut request = whoami();
        let token = format!("Bearer {TOKEN}").parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        let answer = stand.client().call(ECHO, request).await.unwrap();
        assert_eq!(answer, format!("{shown} in default, 0 headers"), "{kind:?}");
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
            let request = with_principal(Request::new(text(said)), &service());
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

/// The token file of a process that starts anew twice, each time with another token.
#[derive(Debug)]
struct Renewed(Mutex<Vec<&'static str>>);

impl FindToken for Renewed {
    fn find(&self, _: &Address) -> Option<Token> {
        let next = self.0.lock().unwrap().pop()?;
        Some(next.parse().unwrap())
    }
}

#[tokio::test]
async fn a_call_whose_token_is_refused_twice_did_not_begin_and_its_retry_succeeds() {
    for kind in [Kind::Tcp, Kind::Service] {
        let stand = Stand::new(kind, Exposure::Services(required()), LONG).await;
        let address = stand.address.clone().unwrap();
        let tokens = Arc::new(Renewed(Mutex::default()));
        let options = RemoteOptions::default().with_tokens(Arc::<Renewed>::clone(&tokens));
        let link = match kind {
            Kind::Service => Link::to_service("demo", &[address], options),
            _ => Link::remote_with(&address, &options),
        };
        within(link.serves()).await;
        *tokens.0.lock().unwrap() = vec![TOKEN, "canary-9876543210", "canary-8765432109"];
        let call = || {
            let request = with_principal(whoami(), &service());
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
    let (process, socket) = (Principal::process(), Principal::socket(own_uid()));
    for kind in Kind::ALL {
        for exposure in [Exposure::Internal, Exposure::Public(None)] {
            let stand = Stand::new(kind, exposure.clone(), LONG).await;
            let request = with_principal(whoami(), &service());
            let answer = stand.client().call(ECHO, request).await;
            let answer = answer.map_err(|status| RpcError::from(status).reason_name().to_owned());
            let by = match (&exposure, kind) {
                (_, Kind::Tcp | Kind::Service) => Err("NO_AUTHENTICATOR".to_owned()),
                (Exposure::Internal, _) => Ok(format!(
                    "Service planner in team-1, {} headers",
                    headers(kind)
                )),
                (_, Kind::Unix) => Ok(format!("Socket {} in default, 0 headers", socket.subject())),
                _ => Ok(format!(
                    "Process {} in default, 0 headers",
                    process.subject()
                )),
            };
            assert_eq!(answer, by, "{exposure:?} {kind:?}");
        }
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
        format!("{:?}", Some(Peer::Unix { uid: own_uid() }))
    );
    assert!(
        peer(Kind::Tcp)
            .await
            .unwrap()
            .starts_with("Some(Tcp(127.0.0.1:")
    );
}
