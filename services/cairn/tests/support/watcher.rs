//! A client that watches a run over restarts of its server.

use super::Client;
use cairn::ui::event_json::event_json;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Done, Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Address, Link};
use cairn_testkit::{Journal, Site};
use std::collections::BTreeMap;
use tonic::Status;

/// A client that keeps its request, its session and its cursor over restarts of the server.
pub(crate) struct Watcher {
    run: wire::StartRun,
    pub(crate) session: String,
    pub(crate) events: Vec<(u64, wire::Event)>,
    pub(crate) has_ended: bool,
    /// What was said to each question; a repeat says the same.
    words: BTreeMap<String, Outcome>,
}

impl Watcher {
    /// Of a run that has not been asked for.
    pub(crate) fn of(run: wire::StartRun) -> Self {
        Self {
            run,
            session: String::new(),
            events: Vec::new(),
            has_ended: false,
            words: BTreeMap::new(),
        }
    }

    /// The server of a site.
    pub(crate) fn client(site: &Site) -> Client {
        let socket = site.socket();
        Client::new(Link::remote(&Address::unix(socket)))
    }

    /// Starts the run, or finds it started, and watches until it ends or the server is gone.
    pub(crate) async fn go_on(&mut self, site: &Site, reference: &Journal) -> Result<(), Status> {
        self.go_on_with(Self::client(site), site, reference).await
    }

    /// As [`Self::go_on`], with a client of one's own.
    pub(crate) async fn go_on_with(
        &mut self,
        client: Client,
        site: &Site,
        reference: &Journal,
    ) -> Result<(), Status> {
        self.until(client, site, reference, usize::MAX).await
    }

    /// As [`Self::go_on_with`], but leaves when so many events have come.
    pub(crate) async fn until(
        &mut self,
        mut client: Client,
        site: &Site,
        reference: &Journal,
        enough: usize,
    ) -> Result<(), Status> {
        let request = pb::StartRunRequest {
            session: String::new(),
            request_id: "r-1".to_owned(),
            run: Some(self.run.clone()),
            ..pb::StartRunRequest::default()
        };
        self.session = client.start_run(request).await?.into_inner().session;
        // What is asked may have been seen already, and its answer lost.
        self.settle(site, &mut client, reference).await?;
        let request = pb::WatchSessionRequest {
            session: self.session.clone(),
            after_seq: self.events.last().map_or(0, |(seq, _)| *seq),
            ..pb::WatchSessionRequest::default()
        };
        let mut stream = client.watch_session(request).await?.into_inner();
        while let Some(message) = stream.message().await? {
            let Some(event) = message.event else {
                continue;
            };
            let kind = event.kind.clone();
            self.events.push((message.seq, event));
            match kind {
                Some(Kind::RunWaiting(_)) => self.settle(site, &mut client, reference).await?,
                Some(Kind::RunCompleted(_)) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Some(Kind::RunFailed(failed)) => panic!("{failed:?}"),
                _ => {}
            }
            if self.events.len() >= enough {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers what is asked by what the ledger says, with the output that the call gives in a run
    /// that nobody disturbs.
    async fn settle(
        &mut self,
        site: &Site,
        client: &mut Client,
        reference: &Journal,
    ) -> Result<(), Status> {
        let request = pb::ListPendingRequest {
            session: self.session.clone(),
            ..pb::ListPendingRequest::default()
        };
        for open in client.list_pending(request).await?.into_inner().pending {
            let to_say = || match site.ledger().has(&open.call_key) {
                true => Outcome::Done(Done {
                    output: reference.recorded_in(&open.step.into()),
                }),
                false => Outcome::Retry(Retry {}),
            };
            let said = self.words.entry(open.id.clone());
            let outcome = said.or_insert_with(to_say).clone();
            let request = pb::DecideRequest {
                session: self.session.clone(),
                request_id: format!("decide-{}", open.id),
                pending_id: open.id,
                settlement: Some(wire::Settlement {
                    outcome: Some(outcome),
                }),
            };
            client.decide(request).await?;
        }
        Ok(())
    }

    /// What was watched, before a kill and after it, is the journal: no gap, nothing twice, and
    /// every event whole.
    pub(crate) fn check(&self, journal: &Journal, fail: &str) {
        let watched = self.events.iter();
        let watched: Vec<_> = watched
            .map(|(seq, event)| event_json(*seq, event))
            .collect();
        assert_eq!(watched, journal.0, "{fail}");
    }
}
