//! The way to the memory service, with faults that a test lays upon it.

use cairn_proto::memory::document_service_server::DocumentServiceServer;
use cairn_proto::memory::journal_service_server::JournalServiceServer;
use cairn_proto::memory::ownership_service_server::OwnershipServiceServer;
use cairn_rpc::{ErrorKind, Exposure, Forward, Link, RequireToken, RpcError, ServerBuilder};
use futures::future::BoxFuture;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused, and nothing is done.
    Refuse,
    /// It is done, and the answer is lost.
    LoseAnswer,
    /// Nothing is done, and nobody answers.
    Hang,
    /// It is refused: the store has less than the caller.
    GoBack,
    /// It is refused: the store has nothing of the session.
    Forget,
    /// It is refused: the store does not have what was written.
    Damage,
    /// It is refused: the caller has another token than the store.
    RefuseToken,
}

/// Where a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Before the store does what is asked.
    Before,
    /// After it, before the answer comes.
    After,
}

/// The faults of all methods, by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    methods: Arc<Mutex<HashMap<String, Method>>>,
    /// From then on no call is made or answered.
    death: CancellationToken,
}

#[derive(Debug, Default)]
struct Method {
    calls: usize,
    next: VecDeque<Order>,
    always: Option<Fault>,
}

#[derive(Debug)]
enum Order {
    Do(Fault),
    /// The call itself, or its answer.
    Hold(What, oneshot::Sender<()>, oneshot::Receiver<()>),
    /// Nothing happens to it.
    Pass,
    /// The caller dies.
    Die(Side, oneshot::Sender<()>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Call,
    Answer,
}

/// A call that is held until the test lets it go on.
pub(crate) struct Held {
    reached: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the call has come.
    pub(crate) async fn reached(&mut self) {
        (&mut self.reached).await.expect("a call");
    }

    /// Lets it go on, unless it was given up.
    pub(crate) fn release(self) {
        let _ = self.release.send(());
    }

    /// Its caller has given it up.
    pub(crate) fn is_dropped(&self) -> bool {
        self.release.is_closed()
    }
}

impl Faults {
    /// The next `times` calls of a method.
    pub(crate) fn next(&self, method: &str, fault: Fault, times: usize) {
        let orders = (0..times).map(|_| Order::Do(fault));
        self.with(method, |method| method.next.extend(orders));
    }

    /// All calls of a method from now on, or none.
    pub(crate) fn always(&self, method: &str, fault: Option<Fault>) {
        self.with(method, |method| method.always = fault);
    }

    /// Holds the next call of a method on its way to the store.
    pub(crate) fn hold(&self, method: &str) -> Held {
        self.hold_it(method, What::Call)
    }

    /// Holds the answer to the next call of a method on its way back.
    pub(crate) fn hold_answer(&self, method: &str) -> Held {
        self.hold_it(method, What::Answer)
    }

    fn hold_it(&self, method: &str, what: What) -> Held {
        let (to_test, reached) = oneshot::channel();
        let (release, released) = oneshot::channel();
        let order = Order::Hold(what, to_test, released);
        self.with(method, |method| method.next.push_back(order));
        Held { reached, release }
    }

    /// The caller dies at one of the next calls of a method, counted from 1: from then on none of its calls is
    /// made or answered. The receiver gets a message when it is dead.
    pub(crate) fn die_at(&self, method: &str, number: usize, side: Side) -> oneshot::Receiver<()> {
        let (to_test, died) = oneshot::channel();
        self.with(method, |method| {
            method.next.extend((1..number).map(|_| Order::Pass));
            method.next.push_back(Order::Die(side, to_test));
        });
        died
    }

    /// Calls of a method so far.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.with(method, |method| method.calls)
    }

    /// Faults that no call has met yet.
    pub(crate) fn are_used_up(&self, method: &str) -> bool {
        self.with(method, |method| method.next.is_empty())
    }

    fn with<T>(&self, method: &str, change: impl FnOnce(&mut Method) -> T) -> T {
        let mut methods = self.methods.lock().unwrap();
        change(methods.entry(method.to_owned()).or_default())
    }

    fn meet(&self, method: &str) -> Option<Order> {
        self.with(method, |method| {
            method.calls += 1;
            method.next.pop_front().or(method.always.map(Order::Do))
        })
    }
}

/// A link to the memory service that meets the faults.
pub(crate) async fn faulty(memory: Link, faults: &Faults) -> Link {
    let journal = Faulty::<JournalServiceServer<()>>::new(&memory, faults);
    let ownership = Faulty::<OwnershipServiceServer<()>>::new(&memory, faults);
    let documents = Faulty::<DocumentServiceServer<()>>::new(&memory, faults);
    ServerBuilder::new(Exposure::Internal)
        .register(journal, cairn_proto::DESCRIPTORS)
        .register(ownership, cairn_proto::DESCRIPTORS)
        .register(documents, cairn_proto::DESCRIPTORS)
        .build()
        .await
        .expect("a server")
        .link()
}

struct Faulty<N> {
    link: Link,
    faults: Faults,
    name: PhantomData<fn() -> N>,
}

impl<N> Faulty<N> {
    fn new(link: &Link, faults: &Faults) -> Self {
        Self {
            link: link.clone(),
            faults: faults.clone(),
            name: PhantomData,
        }
    }
}

impl<N> Clone for Faulty<N> {
    fn clone(&self) -> Self {
        Self::new(&self.link, &self.faults)
    }
}

impl<N: NamedService> NamedService for Faulty<N> {
    const NAME: &'static str = N::NAME;
}

impl<N: 'static> Service<http::Request<Body>> for Faulty<N> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut real = Forward::<N>::new(self.link.clone());
        let faults = self.faults.clone();
        let death = faults.death.clone();
        let answered = async move {
            let path = request.uri().path().to_owned();
            let order = faults.meet(path.rsplit('/').next().unwrap());
            let call = async move || match real.call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            Ok(match order {
                Some(Order::Do(Fault::Refuse)) => unavailable("NOT_WRITTEN").into_http(),
                Some(Order::Do(Fault::Hang)) => std::future::pending().await,
                Some(Order::Do(Fault::GoBack)) => lost().into_http(),
                Some(Order::Do(Fault::Forget)) => forgotten().into_http(),
                Some(Order::Do(Fault::Damage)) => damaged().into_http(),
                Some(Order::Do(Fault::RefuseToken)) => token_refused().into_http(),
                Some(Order::Do(Fault::LoseAnswer)) => {
                    call().await;
                    unavailable("OUTCOME_UNKNOWN").into_http()
                }
                Some(Order::Hold(What::Call, reached, released)) => {
                    // A test that has gone waits for nothing.
                    let _ = reached.send(());
                    let _ = released.await;
                    call().await
                }
                Some(Order::Hold(What::Answer, reached, released)) => {
                    let answer = call().await;
                    let _ = reached.send(());
                    let _ = released.await;
                    answer
                }
                Some(Order::Die(side, died)) => {
                    if side == Side::After {
                        call().await;
                    }
                    faults.death.cancel();
                    let _ = died.send(());
                    std::future::pending().await
                }
                Some(Order::Pass) | None => call().await,
            })
        };
        Box::pin(async move {
            tokio::select! {
                biased;
                () = death.cancelled() => std::future::pending().await,
                answer = answered => answer,
            }
        })
    }
}

fn unavailable(reason: &'static str) -> Status {
    RpcError::unavailable("a fault of the test")
        .reason(reason)
        .into()
}

fn lost() -> Status {
    RpcError::new(ErrorKind::DataLoss, "a loss of the test")
        .reason("WENT_BACK")
        .into()
}

fn forgotten() -> Status {
    RpcError::new(ErrorKind::NotFound, "a loss of the test").into()
}

fn damaged() -> Status {
    RpcError::new(ErrorKind::DataLoss, "event 7 is damaged")
        .reason("DAMAGED")
        .meta("session", "s")
        .meta("seq", "7")
        .into()
}

fn token_refused() -> Status {
    RpcError::new(ErrorKind::Unauthenticated, "a token of yesterday")
        .reason(RequireToken::WRONG)
        .into()
}
