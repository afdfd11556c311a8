//! One link over several processes of the same service.
//!
//! Each process is a member with a connection of its own, and is watched through its health
//! service: a call goes to the next member that serves. Names are resolved again and again, so
//! that members come and go with the addresses behind a name. Whatever changes is said in the log,
//! with the name of the service and the address.

use super::Link;
use super::remote::{self, Answer, Remote, RemoteOptions};
use crate::address::{Address, Place};
use crate::error::RpcError;
use futures::future::{BoxFuture, FutureExt as _};
use http::{HeaderMap, Request};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// How often names are looked up again.
const RESOLVE_EVERY: Duration = Duration::from_secs(5);
/// Pauses between looks at a member that does not serve.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A part that is missing is spoken of this often.
const SPEAK_EVERY: Duration = Duration::from_secs(10);

/// The members of a service. Cheap to clone; the last clone ends the watching.
#[derive(Debug, Clone)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    service: &'static str,
    options: RemoteOptions,
    members: RwLock<Vec<Arc<Member>>>,
    next: AtomicUsize,
    /// The same members, for those who follow them.
    current: watch::Sender<Vec<Arc<Member>>>,
    /// Whether any member serves.
    serves: watch::Sender<bool>,
    resolving: RwLock<Option<AbortOnDropHandle<()>>>,
}

/// One process of the service.
#[derive(Debug)]
pub(super) struct Member {
    service: &'static str,
    address: Address,
    remote: Remote,
    serves: AtomicBool,
    watching: RwLock<Option<AbortOnDropHandle<()>>>,
    /// When the log last named a refused token.
    spoke_of_token: Mutex<Option<Instant>>,
    is_logged: bool,
}

impl Member {
    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn call(self: &Arc<Self>, request: Request<Body>) -> BoxFuture<'static, Answer> {
        let (member, mut remote) = (Arc::clone(self), self.remote.clone());
        async move {
            let answer = match poll_fn(|cx| remote.poll_ready(cx)).await {
                Ok(()) => remote.call(request).await,
                Err(status) => Err(status),
            };
            if let Ok(answer) = &answer {
                member.note_answer(member.service, answer.headers());
            }
            answer.map_err(|status| named(member.service, &member.address, status))
        }
        .boxed()
    }

    /// Logs a refused token: callers retry such a call, perhaps for as long as a person takes to give
    /// both ends the same token.
    fn note_answer(&self, service: &str, headers: &HeaderMap) {
        let Some(status) = Status::from_header_map(headers).filter(|_| self.is_logged) else {
            return;
        };
        let error = RpcError::from_status(&status);
        if status.code() != Code::Unauthenticated || !Link::did_not_begin(&error) {
            return;
        }
        let spoke = self.spoke_of_token.lock();
        let mut spoke = spoke.unwrap_or_else(PoisonError::into_inner);
        if is_time(&mut spoke) {
            let address = &self.address;
            tracing::warn!(service, %address, %error, "{service} at {address} refuses the token");
        }
    }
}

impl Pool {
    pub(super) fn new(
        service: &'static str,
        addresses: &[Address],
        options: RemoteOptions,
    ) -> Self {
        let shared = Arc::new(Shared {
            service,
            options,
            members: RwLock::default(),
            next: AtomicUsize::new(0),
            current: watch::Sender::default(),
            serves: watch::Sender::new(false),
            resolving: RwLock::default(),
        });
        let (plain, named): (Vec<_>, Vec<_>) = addresses
            .iter()
            .cloned()
            .partition(|address| !is_name(address));
        let plain: BTreeSet<_> = plain
            .into_iter()
            .map(|address| address.to_string())
            .collect();
        shared.set_members(&plain);
        if !named.is_empty() {
            let resolving = resolve(Arc::downgrade(&shared), plain, named);
            let task = AbortOnDropHandle::new(tokio::spawn(resolving));
            *write(&shared.resolving) = Some(task);
        }
        Self(shared)
    }

    /// Waits until a member serves.
    pub(super) async fn serves(&self) {
        let mut serves = self.0.serves.subscribe();
        // The sender lives as long as this does.
        let _ = serves.wait_for(|serves| *serves).await;
    }

    pub(super) fn call(&self, request: Request<Body>) -> BoxFuture<'static, Answer> {
        let Some(member) = self.0.choose() else {
            let what = self.0.service;
            let message = format!("no address of {what} is known yet");
            let error = RpcError::unavailable(message).reason(Link::NOT_CONNECTED);
            return futures::future::ready(Err(error.into())).boxed();
        };
        member.call(request)
    }

    /// The members at this moment, and whenever they change.
    pub(super) fn members(&self) -> watch::Receiver<Vec<Arc<Member>>> {
        self.0.current.subscribe()
    }
}

/// What the way to a process does is told with the name of its service, and when to ask again;
/// what the process itself answers stays as it is.
fn named(service: &str, address: &Address, status: Status) -> Status {
    let error = RpcError::from_status(&status);
    let way = [Link::NOT_CONNECTED, Link::BROKEN];
    let Some(reason) = way
        .into_iter()
        .find(|reason| *reason == error.reason_name())
    else {
        return status;
    };
    let message = format!("{service} at {address}: {}", error.message());
    let error = RpcError::unavailable(message).reason(reason);
    error.retry_after(LONGEST_PAUSE).into()
}

impl Shared {
    /// The next member that serves; if none does, the next one, whose error tells why.
    fn choose(&self) -> Option<Arc<Member>> {
        let members = read(&self.members);
        let count = members.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = || (0..count).map(|at| &members[(first.wrapping_add(at)) % count]);
        let serving = in_turn().find(|member| member.serves.load(Ordering::Relaxed));
        serving.or_else(|| in_turn().next()).cloned()
    }

    fn set_members(self: &Arc<Self>, addresses: &BTreeSet<String>) {
        let mut members = write(&self.members);
        members.retain(|member| addresses.contains(&member.address.to_string()));
        for text in addresses {
            let is_known = |member: &Arc<Member>| member.address.to_string() == *text;
            let Ok(address) = text.parse() else { continue };
            if !members.iter().any(is_known) {
                members.push(self.member(address));
            }
        }
        self.current.send_replace(members.clone());
        drop(members);
        self.publish();
    }

    fn member(self: &Arc<Self>, address: Address) -> Arc<Member> {
        let member = Arc::new(Member {
            service: self.service,
            remote: Remote::new(&address, &self.options),
            address,
            serves: AtomicBool::new(false),
            watching: RwLock::default(),
            spoke_of_token: Mutex::default(),
            is_logged: self.options.is_logged,
        });
        let watching = watch_member(Arc::downgrade(self), Arc::downgrade(&member));
        let task = AbortOnDropHandle::new(tokio::spawn(watching));
        *write(&member.watching) = Some(task);
        member
    }

    fn publish(&self) {
        let any = read(&self.members)
            .iter()
            .any(|member| member.serves.load(Ordering::Relaxed));
        self.serves
            .send_if_modified(|serves| std::mem::replace(serves, any) != any);
    }
}

/// Whether the host is a name that has to be looked up.
fn is_name(address: &Address) -> bool {
    match &address.0 {
        Place::Unix(_) => false,
        Place::Http(_) => {
            let authority = address.host_and_port().unwrap_or_default();
            authority.parse::<SocketAddr>().is_err()
        }
    }
}

/// Looks names up and keeps the members as they say. A name that cannot be looked up keeps those
/// that it had.
async fn resolve(pool: Weak<Shared>, plain: BTreeSet<String>, named: Vec<Address>) {
    let mut found: Vec<BTreeSet<String>> = vec![BTreeSet::new(); named.len()];
    let mut spoke = None;
    loop {
        for (address, found) in named.iter().zip(&mut found) {
            let name = address.host_and_port().unwrap_or_default();
            match tokio::net::lookup_host(name).await {
                Ok(addresses) => {
                    let addresses = addresses.map(|found| Address::from(found).to_string());
                    *found = addresses.collect();
                }
                Err(error) if is_time(&mut spoke) => {
                    let Some(pool) = pool.upgrade() else { return };
                    if !pool.options.is_logged {
                        continue;
                    }
                    tracing::warn!(service = pool.service, %address, %error, "cannot be looked up");
                }
                Err(_) => {}
            }
        }
        let Some(pool) = pool.upgrade() else { return };
        let all = found.iter().flatten().chain(&plain).cloned().collect();
        pool.set_members(&all);
        drop(pool);
        sleep(RESOLVE_EVERY).await;
    }
}

/// Keeps up to date whether a member serves, until it is no member any more.
async fn watch_member(pool: Weak<Shared>, member: Weak<Member>) {
    let mut pause = FIRST_PAUSE;
    let mut spoke = None;
    loop {
        let Some(remote) = member.upgrade().map(|member| member.remote.clone()) else {
            return;
        };
        // A call during the pause may have found the token of a process that was about to end.
        remote.forget_token();
        let (served, why) = follow_health(&pool, &member, &remote).await;
        let (Some(pool), Some(member)) = (pool.upgrade(), member.upgrade()) else {
            return;
        };
        member.serves.store(false, Ordering::Relaxed);
        pool.publish();
        let (service, address) = (pool.service, &member.address);
        let is_logged = pool.options.is_logged;
        if served && is_logged {
            tracing::warn!(service, %address, "{service} at {address} is gone: {why}");
        } else if is_logged && is_time(&mut spoke) {
            tracing::warn!(service, %address, "waiting for {service} at {address}: {why}");
        }
        if served {
            (pause, spoke) = (FIRST_PAUSE, Some(Instant::now()));
        }
        drop((pool, member));
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Follows what a member says of its health. Tells whether it served, and why that is over.
async fn follow_health(
    pool: &Weak<Shared>,
    member: &Weak<Member>,
    remote: &Remote,
) -> (bool, String) {
    let mut served = false;
    let why = |status: Status| RpcError::from_status(&status).message().into_owned();
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    // Health needs none, and a connection without an admitted call ends soon.
    remote.put_token(request.metadata_mut().as_mut());
    let watch = HealthClient::new(remote.channel()).watch(request).await;
    let mut statuses = match watch.map_err(|status| remote_status(&status)) {
        Ok(answer) => answer.into_inner(),
        Err(status) => return (served, why(status)),
    };
    loop {
        let status = match statuses.message().await {
            Ok(Some(answer)) => answer.status(),
            Ok(None) => return (served, "it ended".to_owned()),
            Err(status) => return (served, why(remote_status(&status))),
        };
        let (Some(pool), Some(member)) = (pool.upgrade(), member.upgrade()) else {
            return (served, String::new());
        };
        if status != ServingStatus::Serving {
            // Without this stream, which would hold up a process that stops.
            return (served, "it says that it does not serve".to_owned());
        }
        if !member.serves.swap(true, Ordering::Relaxed) {
            let (service, address) = (pool.service, &member.address);
            if pool.options.is_logged {
                tracing::info!(service, %address, "{service} at {address} answers");
            }
            pool.publish();
        }
        served = true;
    }
}

/// Errors of the transport arrive as sources of the status here.
fn remote_status(status: &Status) -> Status {
    match std::error::Error::source(status) {
        Some(source) => remote::status(source),
        None => status.clone(),
    }
}

fn is_time(spoke: &mut Option<Instant>) -> bool {
    let is_time = spoke.is_none_or(|last| last.elapsed() >= SPEAK_EVERY);
    if is_time {
        *spoke = Some(Instant::now());
    }
    is_time
}

/// A poisoned lock is taken over: every critical section here leaves its data whole.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
