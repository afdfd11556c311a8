//! A service that answers for hooks, and a hook of this process. Both count the questions by their keys.

use super::cases::{Behaviour, verdict};
use async_trait::async_trait;
use cairn_engine::hooks::{Point, Verdict};
use cairn_hooks::{Asked, Hook, HookError};
use cairn_proto::event::HookPoint;
use cairn_proto::hook::hook_host_service_server::{HookHostService, HookHostServiceServer};
use cairn_proto::hook::{AskRequest, AskResponse};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// What hooks do, by their names, and how often each question was asked, by its key.
#[derive(Debug, Default)]
pub(super) struct Questions {
    behaviours: Mutex<BTreeMap<String, (Point, Behaviour)>>,
    asked: Mutex<BTreeMap<String, u32>>,
}

impl Questions {
    /// From now on the hook does so with its first question.
    pub(super) fn expect(&self, hook: &str, point: Point, behaviour: Behaviour) {
        let mut behaviours = locked(&self.behaviours);
        behaviours.insert(hook.to_owned(), (point, behaviour));
    }

    /// How often each question was asked.
    pub(super) fn asked(&self) -> BTreeMap<String, u32> {
        locked(&self.asked).clone()
    }

    /// Counts a question, and tells what the hook does with it. None for a later one: then it passes.
    fn take(&self, hook: &str, key: &str) -> Option<(Point, Behaviour)> {
        *locked(&self.asked).entry(key.to_owned()).or_default() += 1;
        let mut behaviours = locked(&self.behaviours);
        let found = behaviours.get(hook).copied();
        match found {
            // It is asked again and again, with the same key.
            Some((_, Behaviour::Unreachable)) => found,
            _ => behaviours.remove(hook),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A hook of this process.
#[derive(Debug)]
pub(super) struct Here(pub(super) Arc<Questions>);

#[async_trait]
impl Hook for Here {
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        match self.0.take(&asked.hook, &asked.key) {
            None => Ok(Verdict::Proceed),
            Some((point, Behaviour::Answers(kind))) => Ok(verdict(point, kind)),
            Some((_, Behaviour::Late)) => std::future::pending().await,
            Some((_, Behaviour::Wrong)) => Err(HookError::Wrong("no answer".to_owned())),
            Some((_, Behaviour::Unreachable)) => {
                Err(HookError::Unreachable("not there".to_owned()))
            }
        }
    }
}

/// A service on a free port.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) questions: Arc<Questions>,
    address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl Host {
    pub(super) async fn start() -> Self {
        let questions = Arc::<Questions>::default();
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
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
        format!("http://{}", self.address)
    }
}

struct Service(Arc<Questions>);

#[async_trait]
impl HookHostService for Service {
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let request = request.into_inner();
        let answer = match self.0.take(&request.hook, &request.key) {
            None => AskResponse::from(Verdict::Proceed),
            Some((point, Behaviour::Answers(kind))) => {
                assert_eq!(request.point(), HookPoint::from(point));
                AskResponse::from(verdict(point, kind))
            }
            Some((_, Behaviour::Late)) => std::future::pending().await,
            Some((_, Behaviour::Wrong)) => AskResponse::default(),
            Some((_, Behaviour::Unreachable)) => return Err(Status::unavailable("not now")),
        };
        Ok(Response::new(answer))
    }
}
