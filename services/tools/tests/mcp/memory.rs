//! Memory as far as allowances need it: documents of one kind, which a test can lose and take away.

use cairn_proto::memory as pb;
use cairn_proto::memory::document_service_server::{DocumentService, DocumentServiceServer};
use cairn_rpc::{ErrorKind, Exposure, Link, RpcError, Server, ServerBuilder, principal};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// The service. It lives as long as a link to it.
pub(crate) struct Memory {
    server: Server,
    played: Played,
}

#[derive(Clone)]
struct Played(Arc<State>);

struct State {
    documents: Mutex<Documents>,
    /// Wakes watchers.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Documents {
    by_id: BTreeMap<String, pb::Document>,
    counter: u64,
    incarnation: u64,
    is_away: bool,
}

/// How far a watcher is.
struct Watcher {
    incarnation: String,
    counter: u64,
    is_caught_up: bool,
}

impl Memory {
    pub(crate) async fn start() -> Self {
        let played = Played(Arc::new(State {
            documents: Mutex::default(),
            changed: watch::Sender::new(()),
        }));
        let service = DocumentServiceServer::new(played.clone());
        let server = ServerBuilder::new(Exposure::Internal)
            .register(service, cairn_proto::DESCRIPTORS)
            .build();
        Self {
            server: server.await.unwrap(),
            played,
        }
    }

    pub(crate) fn link(&self) -> Link {
        self.server.link()
    }

    /// The ids that begin so.
    pub(crate) fn ids(&self, prefix: &str) -> Vec<String> {
        let documents = self.played.documents();
        let ids = documents.by_id.keys();
        ids.filter(|id| id.starts_with(prefix)).cloned().collect()
    }

    /// From now on nothing is answered, or everything again.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.change(|documents| documents.is_away = is_away);
    }

    /// As a failover that loses the last write.
    pub(crate) fn lose_last(&self) {
        self.change(|documents| {
            let last = documents.counter;
            documents.by_id.retain(|_, it| it.version != last);
            documents.counter -= 1;
            documents.incarnation += 1;
        });
    }

    /// As a failover that loses everything.
    pub(crate) fn lose_all(&self) {
        self.change(|documents| {
            *documents = Documents {
                incarnation: documents.incarnation + 1,
                ..Documents::default()
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Documents)) {
        change(&mut self.played.documents());
        self.played.0.changed.send_replace(());
    }
}

impl Played {
    fn documents(&self) -> MutexGuard<'_, Documents> {
        self.0.documents.lock().unwrap()
    }

    /// The documents, for the namespace that allowances belong to.
    fn asked<T>(&self, request: &Request<T>) -> Result<MutexGuard<'_, Documents>, Status> {
        let principal = principal(request)?;
        assert_eq!(principal.namespace().as_str(), "default");
        assert_eq!(principal.subject(), "tools");
        let documents = self.documents();
        match documents.is_away {
            true => Err(RpcError::unavailable("memory is away").into()),
            false => Ok(documents),
        }
    }

    /// What a watcher gets next; nothing if it has all.
    fn next(&self, watcher: &mut Watcher) -> Result<Option<pb::WatchDocumentsResponse>, Status> {
        let now = self.documents();
        if now.is_away {
            return Err(RpcError::unavailable("memory is away").into());
        }
        let is_same = watcher.incarnation == now.incarnation.to_string();
        if !is_same || watcher.counter > now.counter {
            let error = RpcError::new(ErrorKind::OutOfRange, "changes may be missing");
            return Err(error.reason("RELIST").into());
        }
        let newer = now.by_id.values().filter(|it| it.version > watcher.counter);
        let mut documents: Vec<_> = newer.cloned().collect();
        documents.sort_by_key(|it| it.version);
        if documents.is_empty() && std::mem::replace(&mut watcher.is_caught_up, true) {
            return Ok(None);
        }
        watcher.counter = now.counter;
        Ok(Some(pb::WatchDocumentsResponse {
            documents,
            position: Some(pb::DocumentPosition {
                incarnation: watcher.incarnation.clone(),
                counter: watcher.counter,
                since: 0,
            }),
        }))
    }
}

type Watched = Result<pb::WatchDocumentsResponse, Status>;

#[tonic::async_trait]
impl DocumentService for Played {
    type WatchDocumentsStream = BoxStream<'static, Watched>;

    async fn put_document(
        &self,
        request: Request<pb::PutDocumentRequest>,
    ) -> Result<Response<pb::PutDocumentResponse>, Status> {
        let version = {
            let mut documents = self.asked(&request)?;
            let put = request.into_inner();
            assert_eq!(put.kind(), pb::DocumentKind::Allowance);
            if put.expected_version == Some(0) && documents.by_id.contains_key(&put.id) {
                return Err(RpcError::conflict("it is there")
                    .reason("DOCUMENT_VERSION")
                    .into());
            }
            documents.counter += 1;
            let version = documents.counter;
            let document = pb::Document {
                id: put.id.clone(),
                version,
                value: put.value,
                ..pb::Document::default()
            };
            documents.by_id.insert(put.id, document);
            version
        };
        self.0.changed.send_replace(());
        Ok(Response::new(pb::PutDocumentResponse {
            version,
            ..pb::PutDocumentResponse::default()
        }))
    }

    async fn get_document(
        &self,
        request: Request<pb::GetDocumentRequest>,
    ) -> Result<Response<pb::GetDocumentResponse>, Status> {
        let document = {
            let documents = self.asked(&request)?;
            documents.by_id.get(&request.get_ref().id).cloned()
        };
        Ok(Response::new(pb::GetDocumentResponse { document }))
    }

    async fn list_documents(
        &self,
        _: Request<pb::ListDocumentsRequest>,
    ) -> Result<Response<pb::ListDocumentsResponse>, Status> {
        Err(Status::unimplemented("allowances are watched"))
    }

    async fn delete_document(
        &self,
        _: Request<pb::DeleteDocumentRequest>,
    ) -> Result<Response<pb::DeleteDocumentResponse>, Status> {
        Err(Status::unimplemented("allowances stay"))
    }

    async fn watch_documents(
        &self,
        request: Request<pb::WatchDocumentsRequest>,
    ) -> Result<Response<Self::WatchDocumentsStream>, Status> {
        let incarnation = self.asked(&request)?.incarnation.to_string();
        let watcher = match request.into_inner().after {
            Some(position) => (position.incarnation, position.counter),
            None => (incarnation, 0),
        };
        let mut watcher = Watcher {
            incarnation: watcher.0,
            counter: watcher.1,
            is_caught_up: false,
        };
        let mut changed = self.0.changed.subscribe();
        let (sender, receiver) = mpsc::channel(1);
        let played = self.clone();
        tokio::spawn(async move {
            loop {
                let sent = match played.next(&mut watcher).transpose() {
                    Some(message) => {
                        let is_over = message.is_err();
                        sender.send(message).await.is_ok() && !is_over
                    }
                    None => changed.changed().await.is_ok(),
                };
                if !sent {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver).boxed()))
    }
}
