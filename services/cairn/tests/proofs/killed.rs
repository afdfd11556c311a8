//! A run in a `cairn serve` that kills itself at a commit of the run and is started again.

use crate::support::connect;
use crate::support::place::Place;
use crate::support::served::SESSION;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::Outcome;
use cairn_proto::orchestrator as pb;
use tonic::Status;

const SIGKILL: i32 = 9;

/// A run over a server that may be killed.
pub(super) struct KilledRun {
    pub(super) place: Place,
    run: wire::StartRun,
    /// The settlement of each question; none if the run must not wait.
    settlement: Option<Outcome>,
    pub(super) has_ended: bool,
}

impl KilledRun {
    pub(super) fn new(place: Place, run: wire::StartRun, settlement: Option<Outcome>) -> Self {
        Self {
            place,
            run,
            settlement,
            has_ended: false,
        }
    }

    /// Runs without a kill, and returns the number of commits.
    pub(super) async fn undisturbed(&mut self) -> usize {
        let count = self.place.site.path().join("commits");
        self.serve(&format!("count:{}", count.display()));
        let ended = Box::pin(self.watch()).await;
        ended.unwrap_or_else(|status| panic!("no kill disturbs it: {status:?}"));
        let commits = self.place.site.read("commits");
        commits.expect("commits are counted").lines().count()
    }

    /// Serves until the server kills itself at a commit. Returns false if the run has no such commit.
    pub(super) async fn serve_until_killed(&mut self, fail: &str) -> bool {
        self.serve(fail);
        while self.place.is_served() && !self.has_ended {
            // The server dies during this, or has just served the run to its end.
            let _ = Box::pin(self.watch()).await;
            self.place.pause().await;
        }
        if self.place.is_served() {
            return false;
        }
        assert_eq!(self.place.wait_for_signal(), Some(SIGKILL), "{fail}");
        true
    }

    /// Serves the site. `fail` says at which commit the server kills itself; it is empty for none.
    pub(super) fn serve(&mut self, fail: &str) {
        let fails = [("CAIRN_FAIL_COMMIT", fail)];
        let variables: &[(&str, &str)] = match fail.is_empty() {
            true => &[],
            false => &fails,
        };
        assert!(self.place.keep_serving_with(variables), "{fail}");
    }

    /// Starts the run, or finds it started, and watches until it ends or the server is gone.
    pub(super) async fn watch(&mut self) -> Result<(), Status> {
        let mut client = connect(self.place.address());
        let request = pb::CreateSessionRequest {
            session: SESSION.to_owned(),
            request_id: "create".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        client.create_session(request).await?;
        let request = pb::StartRunRequest {
            session: SESSION.to_owned(),
            request_id: "run".to_owned(),
            run: Some(self.run.clone()),
            ..pb::StartRunRequest::default()
        };
        client.start_run(request).await?;
        let request = pb::WatchSessionRequest {
            session: SESSION.to_owned(),
            ..pb::WatchSessionRequest::default()
        };
        let mut events = client.watch_session(request).await?.into_inner();
        while let Some(message) = events.message().await? {
            match message.event.and_then(|event| event.kind) {
                Some(Kind::RunWaiting(waiting)) => match &self.settlement {
                    Some(settlement) => self.settle(settlement).await?,
                    None => panic!("the run waits: {waiting:?}"),
                },
                Some(Kind::RunCompleted(_)) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Some(Kind::RunFailed(failed)) => panic!("the run fails: {failed:?}"),
                _ => {}
            }
        }
        Ok(())
    }

    async fn settle(&self, settlement: &Outcome) -> Result<(), Status> {
        let mut client = connect(self.place.address());
        let request = pb::ListPendingRequest {
            session: SESSION.to_owned(),
            ..pb::ListPendingRequest::default()
        };
        let pending = client.list_pending(request).await?.into_inner().pending;
        for pending in pending {
            let request = pb::DecideRequest {
                session: SESSION.to_owned(),
                request_id: format!("decide-{}", pending.id),
                pending_id: pending.id,
                settlement: Some(wire::Settlement {
                    outcome: Some(settlement.clone()),
                }),
            };
            client.decide(request).await?;
        }
        Ok(())
    }
}
