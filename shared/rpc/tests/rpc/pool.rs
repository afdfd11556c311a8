//! Links to services of several processes, and services that are passed on.

use crate::demo::{Client, DESCRIPTORS, Demo, ECHO, forged, text};
use crate::stand::{LONG, services, within};
use async_trait::async_trait;
use cairn_rpc::{
    Address, Authenticate, Authentication, ErrorKind, Exposure, FindToken, Forward, Link, Listener,
    Principal, RemoteOptions, RequireToken, RpcError, ServerBuilder, Token, with_principal,
};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A process of the demo service.
struct Process {
    address: Address,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Process {
    async fn at(place: &str) -> Self {
        Self::with(place, services()).await
    }

    async fn with(place: &str, exposure: Exposure) -> Self {
        let (notices, _) = mpsc::unbounded_channel();
        let server = ServerBuilder::new(exposure)
            .register(Demo::new(notices), &DESCRIPTORS)
            .build()
            .await
            .unwrap();
        let listener: Listener = TcpListener::bind(place).await.unwrap().into();
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        Self {
            address: listener.address().unwrap(),
            stop,
            serving: tokio::spawn(async move {
                server.serve(listener, stopped, LONG).await.unwrap();
            }),
        }
    }

    fn place(&self) -> String {
        self.address.host_and_port().unwrap().to_owned()
    }

    /// As if it were killed.
    async fn die(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

fn link(addresses: &[Address]) -> Link {
    Link::to_service("demo", addresses, RemoteOptions::default())
}

async fn echo(link: &Link) -> Result<String, RpcError> {
    Ok(within(Client::new(link.clone()).echo("hello")).await?)
}

/// Calls until one is answered by each of so many processes.
async fn answers_of(link: &Link, calls: usize) -> usize {
    let mut answered = 0;
    for _ in 0..calls {
        answered += usize::from(echo(link).await.is_ok());
    }
    answered
}

#[tokio::test]
async fn a_service_is_waited_for_until_it_serves() {
    let process = Process::at("127.0.0.1:0").await;
    let (address, place) = (process.address.clone(), process.place());
    process.die().await;
    let link = link(&[address]);
    let error = echo(&link).await.unwrap_err();
    assert_eq!(error.reason_name(), Link::NOT_CONNECTED);
    let waiting = tokio::spawn({
        let link = link.clone();
        async move { link.serves().await }
    });
    let process = Process::at(&place).await;
    within(waiting).await.unwrap();
    echo(&link).await.unwrap();
    process.die().await;
}

#[tokio::test]
async fn calls_go_to_the_processes_that_serve() {
    let one = Process::at("127.0.0.1:0").await;
    let two = Process::at("127.0.0.1:0").await;
    let link = link(&[one.address.clone(), two.address.clone()]);
    within(link.serves()).await;
    let place = one.place();
    one.die().await;
    // As soon as its end is known, nothing goes to it any more.
    while answers_of(&link, 10).await < 10 {}
    // One that stops takes no more calls although it still answers those it has.
    let one = Process::at(&place).await;
    let (_say, mut received) = loop {
        let (say, received) = Client::new(link.clone()).chat().await.unwrap();
        if answers_of(&link, 10).await == 10 {
            break (say, received);
        }
    };
    two.stop.cancel();
    while answers_of(&link, 10).await < 10 {}
    one.die().await;
    two.die().await;
    assert!(within(received.message()).await.is_err());
}

#[tokio::test]
async fn a_name_stands_for_the_addresses_behind_it() {
    let process = Process::at("127.0.0.1:0").await;
    let port = process
        .address
        .host_and_port()
        .unwrap()
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    let named: Address = format!("http://localhost:{port}").parse().unwrap();
    let link = link(&[named]);
    within(link.serves()).await;
    echo(&link).await.unwrap();
    let nowhere: Address = format!("http://nowhere.invalid:{port}").parse().unwrap();
    let error = echo(&self::link(&[nowhere])).await.unwrap_err();
    assert_eq!(error.reason_name(), Link::NOT_CONNECTED);
    process.die().await;
}

struct Always(&'static str);

#[async_trait]
impl Authenticate for Always {
    async fn authenticate(&self, _: &http::request::Parts) -> Result<Principal, RpcError> {
        Principal::new(Authentication::Token, self.0, "team-1".parse()?)
    }
}

#[tokio::test]
async fn a_service_that_is_passed_on_knows_who_calls() {
    let process = Process::at("127.0.0.1:0").await;
    let service: Forward<Demo> = Forward::new(link(std::slice::from_ref(&process.address)));
    let front = ServerBuilder::new(Exposure::Public(Some(Arc::new(Always("anne@example.com")))))
        .register(service, &DESCRIPTORS)
        .build()
        .await
        .unwrap();
    let mut client = Client::new(front.link());
    let request = with_principal(tonic::Request::new(text("whoami")), &forged());
    let answer = within(client.call(ECHO, request)).await.unwrap();
    assert_eq!(answer, "Token anne@example.com in team-1, 2 headers");
    let (say, mut received) = client.chat().await.unwrap();
    say.send(text("hello")).await.unwrap();
    assert_eq!(
        within(received.message()).await.unwrap().unwrap().text,
        "hello"
    );
    let error = within(client.echo("fail")).await.unwrap_err();
    assert_eq!(RpcError::from(error).reason_name(), "DEMO_REFUSED");
    process.die().await;
    let error = within(client.echo("whoami")).await.unwrap_err();
    assert_eq!(RpcError::from(error).kind(), ErrorKind::Unavailable);
}

/// The token of the process that serves now.
#[derive(Debug, Clone, Default)]
struct Current(Arc<Mutex<Option<Token>>>);

impl FindToken for Current {
    fn find(&self, _: &Address) -> Option<Token> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_process_in_the_place_of_another_is_sent_its_own_token() {
    let current = Current::default();
    let begin = async |place: &str, text: &str| {
        let token: Token = text.parse().unwrap();
        let required = RequireToken::new(&token, "");
        *current.0.lock().unwrap() = Some(token);
        Process::with(place, Exposure::Services(Arc::new(required))).await
    };
    let process = begin("127.0.0.1:0", "1111111111111111").await;
    let (address, place) = (process.address.clone(), process.place());
    let options = RemoteOptions {
        tokens: Some(Arc::new(current.clone())),
        ..RemoteOptions::default()
    };
    let link = Link::to_service("demo", &[address], options);
    within(link.serves()).await;
    echo(&link).await.unwrap();
    *current.0.lock().unwrap() = None;
    process.die().await;
    while echo(&link).await.unwrap_err().reason_name() != Link::NOT_CONNECTED {}
    let process = begin(place.as_str(), "2222222222222222").await;
    within(link.serves()).await;
    echo(&link).await.unwrap();
    process.die().await;
}

/// The token file of a process that drains is there until it ends, and calls meanwhile read it.
#[tokio::test]
async fn a_process_after_one_that_drained_answers_the_first_call_and_the_first_stream() {
    let (old, new) = ("1111111111111111", "2222222222222222");
    for (is_watched, is_stream) in [(false, false), (false, true), (true, false), (true, true)] {
        let current = Current::default();
        let begin = async |place: &str, text: &str| {
            let token: Token = text.parse().unwrap();
            let required = RequireToken::new(&token, "");
            *current.0.lock().unwrap() = Some(token);
            Process::with(place, Exposure::Services(Arc::new(required))).await
        };
        let process = begin("127.0.0.1:0", old).await;
        let (address, place) = (process.address.clone(), process.place());
        let options = RemoteOptions::default().with_tokens(Arc::new(current.clone()));
        let link = match is_watched {
            true => Link::to_service("demo", &[address], options),
            false => Link::remote_with(&address, &options),
        };
        within(link.serves()).await;
        echo(&link).await.unwrap();
        process.stop.cancel();
        within(process.serving).await.unwrap();
        while echo(&link).await.unwrap_err().reason_name() != Link::NOT_CONNECTED {}
        let process = begin(place.as_str(), new).await;
        match is_stream {
            false => assert_eq!(echo(&link).await.unwrap(), "hello"),
            true => {
                let (say, mut received) = within(Client::new(link.clone()).chat()).await.unwrap();
                for said in ["one", "two"] {
                    say.send(text(said)).await.unwrap();
                    let answer = within(received.message()).await.unwrap().unwrap();
                    assert_eq!(answer.text, said);
                }
            }
        }
        process.die().await;
    }
}

/// Refuses every token, and reports each call.
struct Refusing(mpsc::UnboundedSender<()>);

#[async_trait]
impl Authenticate for Refusing {
    async fn authenticate(&self, _: &http::request::Parts) -> Result<Principal, RpcError> {
        let _ = self.0.send(());
        let error = RpcError::new(ErrorKind::Unauthenticated, "another token");
        Err(error.reason(RequireToken::WRONG))
    }
}

#[tokio::test]
async fn a_call_with_a_token_that_a_person_gave_is_sent_once() {
    let (sent, mut calls) = mpsc::unbounded_channel();
    let exposure = Exposure::Services(Arc::new(Refusing(sent)));
    let process = Process::with("127.0.0.1:0", exposure).await;
    let token: Token = "1111111111111111".parse().unwrap();
    let options = RemoteOptions::default().with_tokens(Arc::new(token));
    let link = Link::remote_with(&process.address, &options);
    let error = echo(&link).await.unwrap_err();
    assert_eq!(error.reason_name(), RequireToken::WRONG);
    assert_eq!(calls.try_recv(), Ok(()));
    assert!(calls.try_recv().is_err(), "the call was sent again");
    process.die().await;
}

/// Admits every caller, and reports whether it has a token.
struct Seen(mpsc::UnboundedSender<bool>);

#[async_trait]
impl Authenticate for Seen {
    async fn authenticate(&self, request: &http::request::Parts) -> Result<Principal, RpcError> {
        let _ = self.0.send(request.headers.contains_key("authorization"));
        Principal::new(Authentication::Token, "link", "team-1".parse()?)
    }
}

/// A connection without an admitted call ends soon.
#[tokio::test]
async fn a_link_without_a_call_shows_its_token() {
    let (seen, mut asked) = mpsc::unbounded_channel();
    let process = Process::with("127.0.0.1:0", Exposure::Services(Arc::new(Seen(seen)))).await;
    let token: Token = "1111111111111111".parse().unwrap();
    let options = RemoteOptions {
        tokens: Some(Arc::new(token)),
        ..RemoteOptions::default()
    };
    let link = Link::to_service("demo", std::slice::from_ref(&process.address), options);
    within(link.serves()).await;
    assert_eq!(within(asked.recv()).await, Some(true));
    process.die().await;
}
