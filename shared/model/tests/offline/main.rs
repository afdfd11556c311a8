//! The offline model from a goal to a report, over unlike folders; every statement of a report
//! is counted anew.

#[cfg(test)]
mod adversarial;
#[cfg(test)]
mod answer;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod folders;
#[cfg(test)]
mod line;
#[cfg(test)]
mod model;
#[cfg(test)]
mod recount;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod tools;
