//! Bare commands that change nothing, to several servers at the same time.

use super::failure::Effect;
use super::layout::Layout;
use super::node::{Node, Trouble};
use super::servers::{ATTEMPTS, MOVING, Servers};
use crate::port::{StoreError, StoreResult};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use redis::{Cmd, Pipeline, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where one server's answer can do without another's, those that are late are not waited for any
/// longer than this once somebody has answered: where somebody waits who is to get an answer soon.
pub(super) const LATE: Duration = Duration::from_millis(300);

/// The same where it is about work that is to be found: a server that is slow has some, too.
pub(super) const VERY_LATE: Duration = Duration::from_secs(1);

/// A server's answer, and when it was asked and answered, counted from when all were.
pub(super) struct Answered {
    pub(super) node: Arc<Node>,
    pub(super) value: Value,
    pub(super) asked: Duration,
    pub(super) answered: Duration,
}

impl Servers {
    /// Asks each partition's server; the answers are in the order of the questions.
    pub(super) async fn ask_all(
        self: &Arc<Self>,
        questions: impl IntoIterator<Item = (u16, Cmd)>,
    ) -> StoreResult<Vec<Value>> {
        let (answers, error) = self.ask(questions.into_iter().collect(), None).await?;
        match error {
            Some(error) => Err(error),
            None => Ok(answers.into_iter().flatten().collect()),
        }
    }

    /// The same, where one server's part can do without those of others that do not answer, or are so
    /// late.
    pub(super) async fn ask_some(
        self: &Arc<Self>,
        late: Duration,
        questions: impl IntoIterator<Item = (u16, Cmd)>,
    ) -> StoreResult<Vec<Option<Value>>> {
        let questions = questions.into_iter().collect();
        let (answers, error) = self.ask(questions, Some(late)).await?;
        match error {
            Some(error) if answers.iter().all(Option::is_none) => Err(error),
            _ => Ok(answers),
        }
    }

    /// Asks each server the same, which is about no session; without those that do not answer, or are
    /// late.
    pub(super) async fn ask_servers(
        self: &Arc<Self>,
        question: &Cmd,
    ) -> StoreResult<Vec<Answered>> {
        let _permit = self.permit().await?;
        let layout = self.layout().await?;
        let began = Instant::now();
        let asked = layout.nodes().iter().map(|node| async move {
            let vouched = self.vouched(node).await;
            let vouched = vouched.map_err(|error| (node, Trouble::NotSent(error)))?;
            let asked = began.elapsed();
            let answer = node.send_over(vouched.live, question).await;
            Ok(Answered {
                value: answer.map_err(|trouble| (node, trouble))?,
                node: node.clone(),
                asked,
                answered: began.elapsed(),
            })
        });
        let (mut answers, mut failure) = (Vec::new(), None);
        for answer in all_but_late(asked, Some(LATE)).await {
            match answer {
                Ok(answer) => answers.push(answer),
                Err((node, trouble)) => failure = Some(self.lost(node, trouble)),
            }
        }
        if answers.len() < layout.nodes().len() {
            self.missed(&layout);
        }
        match failure {
            Some(error) if answers.is_empty() => Err(error),
            _ => Ok(answers),
        }
    }

    /// Somebody has not answered, or not yet: it is looked for, since others may have its part by now.
    fn missed(&self, layout: &Arc<Layout>) {
        if self.is_known(layout) {
            self.stale();
        }
        self.lookout.call_failed();
    }

    async fn ask(
        self: &Arc<Self>,
        questions: Vec<(u16, Cmd)>,
        late: Option<Duration>,
    ) -> StoreResult<(Vec<Option<Value>>, Option<StoreError>)> {
        let _permit = self.permit().await?;
        let mut attempt = 1;
        loop {
            let layout = self.layout().await?;
            let (answers, failure) = self.ask_by_node(&layout, &questions, late).await;
            match failure {
                Some((_, trouble)) if trouble.is_misplaced() && attempt < ATTEMPTS => {
                    self.stale();
                    tokio::time::sleep(MOVING).await;
                }
                Some((_, trouble)) if trouble.is_elsewhere() && attempt < ATTEMPTS => {
                    tokio::time::sleep(MOVING).await;
                }
                failure => {
                    let error = failure.map(|(node, trouble)| self.lost(&node, trouble));
                    if answers.iter().any(Option::is_none) {
                        self.missed(&layout);
                    }
                    return Ok((answers, error));
                }
            }
            attempt += 1;
        }
    }

    /// Sends each server its questions in one go, all servers at the same time. A question that is
    /// refused takes no other's answer. Tells one failure.
    async fn ask_by_node(
        self: &Arc<Self>,
        layout: &Layout,
        questions: &[(u16, Cmd)],
        late: Option<Duration>,
    ) -> (Vec<Option<Value>>, Option<(Arc<Node>, Trouble)>) {
        let is_at =
            |node: &Arc<Node>, question: &(u16, Cmd)| Arc::ptr_eq(layout.node(question.0), node);
        // One that is asked nothing has no answer for which others could be late.
        let nodes = layout.nodes().iter();
        let nodes = nodes.filter(|node| questions.iter().any(|question| is_at(node, question)));
        let asked = nodes.map(|node| async move {
            let own = questions.iter().enumerate();
            let own = own.filter(|(_, question)| is_at(node, question));
            let vouched = self.vouched(node).await;
            let vouched = vouched.map_err(|error| (node, Trouble::NotSent(error)))?;
            let mut commands = Pipeline::new();
            let (mut places, mut answers) = (Vec::new(), Vec::new());
            for (place, (partition, cmd)) in own {
                match self.admits(node, &vouched, *partition, Effect::Reads) {
                    Ok(()) => {
                        commands.add_command(cmd.clone());
                        places.push(place);
                    }
                    Err(trouble) => answers.push((place, Err(trouble))),
                }
            }
            if !places.is_empty() {
                let values = node.send_each_over(vouched.live, commands).await;
                let values = values.map_err(|trouble| (node, trouble))?;
                let values = values.into_iter().map(|it| it.map_err(Trouble::Failed));
                answers.extend(places.into_iter().zip(values));
            }
            Ok((node, answers))
        });
        let mut answers = vec![None; questions.len()];
        let mut failure: Option<(Arc<Node>, Trouble)> = None;
        // Of several the one that a second try may mend.
        let mut failed = |node: &Arc<Node>, trouble: Trouble| {
            if failure.is_none() || trouble.is_misplaced() || trouble.is_elsewhere() {
                failure = Some((node.clone(), trouble));
            }
        };
        for answered in all_but_late(asked, late).await {
            match answered {
                Ok((node, answered)) => {
                    for (place, answer) in answered {
                        match answer {
                            Ok(value) => answers[place] = Some(value),
                            Err(trouble) => failed(node, trouble),
                        }
                    }
                }
                Err((node, trouble)) => failed(node, trouble),
            }
        }
        (answers, failure)
    }
}

/// What comes of all, in the order in which they end; without those that end so long after the first
/// answer. One that fails at once, as where nobody listens, is none.
async fn all_but_late<T, E, F: Future<Output = Result<T, E>>>(
    asked: impl Iterator<Item = F>,
    late: Option<Duration>,
) -> Vec<Result<T, E>> {
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut ended = Vec::new();
    while let Some(next) = asked.next().await {
        let is_answer = next.is_ok();
        ended.push(next);
        if is_answer {
            break;
        }
    }
    let rest = async {
        while let Some(next) = asked.next().await {
            ended.push(next);
        }
    };
    match late {
        None => rest.await,
        // Whoever is late is missing among the answers.
        Some(late) => drop(tokio::time::timeout(late, rest).await),
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_is_waited_for_and_who_is_late_after_that_is_not() {
        let after = |seconds: u64| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            if seconds < 5 {
                Err(seconds)
            } else {
                Ok(seconds)
            }
        };
        let asked = || [9, 20, 12, 1, 10].into_iter().map(after);
        let all = all_but_late(asked(), None).await;
        assert_eq!(all, [Err(1), Ok(9), Ok(10), Ok(12), Ok(20)]);
        let soon = all_but_late(asked(), Some(Duration::from_secs(2))).await;
        assert_eq!(soon, [Err(1), Ok(9), Ok(10)]);
        let failed = all_but_late([1, 4].into_iter().map(after), Some(Duration::ZERO)).await;
        assert_eq!(failed, [Err(1), Err(4)]);
    }
}
