//! A service that answers for hooks, and a hook of this process. Both count the questions by their keys.

use super::cases::{Behaviour, verdict, verdict_not_taken};
use async_trait::async_trait;
use cairn_engine::hooks::{Point, Verdict};
use cairn_hooks::{Asked, Hook, HookError};
use cairn_proto::event::HookPoint;
use cairn_proto::hook::hook_host_service_server::{HookHostService, HookHostServiceServer};
use cairn_proto::hook::{AskRequest, AskResponse};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// How often each question was asked, by its key.
pub(super) type Counts = BTreeMap<String, u32>;

/// What a hook of this process cannot be reached by, before it comes back.
const MISSES_HERE: u32 = 2;
/// The same of a service that listens again.
const MISSES_OF_HOST: u32 = 1;

/// What hooks do, by their names, and how often each was asked.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<BTreeMap<String, Known>>);

/// What there is to know of one hook.
#[derive(Debug, Default)]
struct Known {
    expected: Option<(Point, Behaviour)>,
    /// The key of its first question.
    first: Option<String>,
    asked: Counts,
}

/// What a hook does with a question.
#[derive(Debug, Clone, Copy)]
struct Task {
    point: Point,
    behaviour: Behaviour,
    /// How often the question has come, this time included.
    times: u32,
}

impl Questions {
    /// The hook does so with its first question.
    pub(super) fn expect(&self, hook: &str, point: Point, behaviour: Behaviour) {
        let known = Known {
            expected: Some((point, behaviour)),
            ..Known::default()
        };
        self.locked().insert(hook.to_owned(), known);
    }

    /// How often each question of a hook was asked.
    pub(super) fn asked(&self, hook: &str) -> Counts {
        let known = self.locked();
        known
            .get(hook)
            .map(|known| known.asked.clone())
            .unwrap_or_default()
    }

    /// Counts a question, and tells what the hook does with it. None for a question that passes.
    fn take(&self, hook: &str, key: &str) -> Option<Task> {
        let mut known = self.locked();
        let known = known.entry(hook.to_owned()).or_default();
        let times = known.asked.entry(key.to_owned()).or_default();
        *times += 1;
        let times = *times;
        let first = known.first.get_or_insert_with(|| key.to_owned());
        let (point, behaviour) = known.expected.filter(|_| *first == key)?;
        Some(Task {
            point,
            behaviour,
            times,
        })
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hook of this process.
#[derive(Debug)]
pub(super) struct Here(pub(super) Arc<Questions>);

#[async_trait]
impl Hook for Here {
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        let Some(task) = self.0.take(&asked.hook, &asked.key) else {
            return Ok(Verdict::Proceed);
        };
        let away = || HookError::Unreachable("not there".to_owned());
        match task.behaviour {
            Behaviour::Answers(kind) => Ok(verdict(task.point, kind)),
            Behaviour::NotTaken => Ok(verdict_not_taken(task.point)),
            Behaviour::Late => std::future::pending().await,
            Behaviour::Wrong => Err(HookError::Wrong("no answer".to_owned())),
            Behaviour::Unreachable => Err(away()),
            Behaviour::ComesBack(_) if task.times <= MISSES_HERE => Err(away()),
            Behaviour::ComesBack(kind) => Ok(verdict(task.point, kind)),
        }
    }
}

/// A service.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) questions: Arc<Questions>,
    address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl Host {
    /// On a free port.
    pub(super) async fn start() -> Self {
        Self::at(0, Arc::default()).await
    }

    /// On this port.
    pub(super) async fn at(port: u16, questions: Arc<Questions>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("its address");
        let service = HookHostServiceServer::new(Service(Arc::clone(&questions)));
        let serving = tokio::spawn(async move {
            let server = Server::builder().add_service(service);
            let incoming = TcpListenerStream::new(listener);
            server
                .serve_with_incoming(incoming)
                .await
                .expect("it serves");
        });
        Self {
            questions,
            address,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    pub(super) fn url(&self) -> String {
        url(self.address.port())
    }
}

/// The address of a service on this port.
pub(super) fn url(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}

struct Service(Arc<Questions>);

#[async_trait]
impl HookHostService for Service {
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let request = request.into_inner();
        let Some(task) = self.0.take(&request.hook, &request.key) else {
            return Ok(Response::new(Verdict::Proceed.into()));
        };
        assert_eq!(request.point(), HookPoint::from(task.point));
        let answer: AskResponse = match task.behaviour {
            Behaviour::Answers(kind) => verdict(task.point, kind).into(),
            Behaviour::NotTaken => verdict_not_taken(task.point).into(),
            Behaviour::Late => std::future::pending().await,
            Behaviour::Wrong => AskResponse::default(),
            // It listens once the question that it was away for is over.
            Behaviour::Unreachable => Verdict::Proceed.into(),
            Behaviour::ComesBack(_) if task.times <= MISSES_OF_HOST => {
                return Err(Status::unavailable("not now"));
            }
            Behaviour::ComesBack(kind) => verdict(task.point, kind).into(),
        };
        Ok(Response::new(answer))
    }
}
