//! The offline model from a goal to a report, in conversations, and from any cut of an attempt.

#[cfg(test)]
mod conversations;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod model;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod tools;
