//! Simulations: what policies say of actions on resources, and which statements decide.

use std::ops::Range;

use sherd_policy::{Effect, Explanation, JudgedStatement, Verdict};
use sherd_store::iam::Principal;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::limits::SIMULATED_REASONS_MAX;
use super::super::request::ActionRequest;
use super::super::simulation::Simulation;
use super::page::end_page;

/// The explanation of one action on one resource.
struct ResourceResult<'a> {
    arn: &'a str,
    explanation: Explanation,
}

pub(super) async fn principal(request: &ActionRequest) -> Result<Elements, Fault> {
    let permit = request.iam.simulation_place().await?;
    let principal = source(request).await?;
    simulate(request, Simulation::new(request, Some(&principal))?, permit).await
}

pub(super) async fn custom(request: &ActionRequest) -> Result<Elements, Fault> {
    if request.form.members("PolicyInputList") == 0 {
        return Err(Fault::missing("PolicyInputList"));
    }
    let permit = request.iam.simulation_place().await?;
    simulate(request, Simulation::new(request, None)?, permit).await
}

/// The user or the group that the request names, with its policies.
pub(super) async fn source(request: &ActionRequest) -> Result<Principal, Fault> {
    let (owner, arn) = (request.policy_source()?, request.required("PolicySourceArn")?);
    let principal = request.iam.principal(owner).await?;
    if principal.arn == arn {
        Ok(principal)
    } else {
        Err(Fault::no_such_entity(format!("The entity with ARN {arn} cannot be found.")))
    }
}

/// Judges the actions of a page, for as long as its caller waits.
async fn simulate(
    request: &ActionRequest,
    simulation: Simulation,
    permit: OwnedSemaphorePermit,
) -> Result<Elements, Fault> {
    let page = request.page()?;
    let first = match &page.marker {
        None => 0,
        Some(marker) => {
            marker.parse().ok().filter(|first| (1..simulation.actions.len()).contains(first)).ok_or_else(
                || Fault::validation(format!("Invalid Marker: {marker} is not the marker of a page before.")),
            )?
        }
    };
    let count = page.entries.min(simulation.actions_per_page()?);
    let next = simulation.actions.len().min(first + count);
    let is_explained = request.form.get("Explain") == Some("true");
    apart(move |is_left| {
        let _permit = permit;
        let mut result = Answers { simulation: &simulation, is_explained }.judge(first..next, is_left);
        end_page(&mut result, (next < simulation.actions.len()).then(|| next.to_string()).as_deref());
        result
    })
    .await
}

/// Runs work that takes a processor for long apart from the threads of the runtime, which serve all other
/// requests.
/// `is_left` is true once its caller is gone.
async fn apart<T: Send + 'static>(
    work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
) -> Result<T, Fault> {
    let (answer, answered) = oneshot::channel();
    drop(tokio::task::spawn_blocking(move || {
        let result = work(&|| answer.is_closed());
        drop(answer.send(result));
    }));
    // A panic of the work was logged by the panic hook.
    answered.await.map_err(|_| Fault::unavailable())
}

/// Leaves out reasons beyond those that an answer names: first of the statements that did not match.
fn shorten(explanation: &mut Explanation) {
    explanation.statements.sort_by_key(|found| (!found.matches(), found.effect));
    explanation.statements.truncate(SIMULATED_REASONS_MAX);
    for found in &mut explanation.statements {
        found.failed.truncate(SIMULATED_REASONS_MAX);
    }
    while explanation.absent_keys.len() > SIMULATED_REASONS_MAX {
        explanation.absent_keys.pop_last();
    }
}

/// The answers of a simulation.
struct Answers<'a> {
    simulation: &'a Simulation,
    /// Whether the answers name the statements that do not match, too: a parameter that AWS does not have.
    is_explained: bool,
}

impl Answers<'_> {
    /// Judges some actions on all resources; ends early where the caller is gone.
    fn judge(&self, actions: Range<usize>, is_left: &dyn Fn() -> bool) -> Elements {
        let Simulation { actions: all_actions, resources, .. } = self.simulation;
        let actions = all_actions.get(actions).unwrap_or_default();
        let all = [String::from("*")];
        let resources = if resources.is_empty() { &all[..] } else { resources };
        let mut results: Vec<Vec<ResourceResult<'_>>> = actions.iter().map(|_| Vec::new()).collect();
        for arn in resources {
            let rights = self.simulation.rights(arn);
            for (action, results) in actions.iter().zip(&mut results) {
                if is_left() {
                    return Elements::default();
                }
                let mut explanation = rights.explain(action);
                shorten(&mut explanation);
                results.push(ResourceResult { arn, explanation });
            }
        }
        let mut result = Elements::default();
        result.list("EvaluationResults", actions.iter().zip(&results), |member, (action, results)| {
            self.write(member, action, results);
        });
        result
    }

    /// One action's: together and for each resource (AWS, "EvaluationResult").
    fn write(&self, result: &mut Elements, action: &str, results: &[ResourceResult<'_>]) {
        let verdicts = results.iter().map(|result| result.explanation.verdict);
        let verdict =
            verdicts.min_by_key(|verdict| strictness(*verdict)).unwrap_or(Verdict::DeniedImplicitly);
        let name = if let [only] = results { only.arn } else { "*" };
        result.text("EvalActionName", action).text("EvalResourceName", name);
        result.text("EvalDecision", word(verdict));
        let deciding = results.iter().filter(|result| result.explanation.verdict == verdict);
        let mut statements: Vec<&JudgedStatement> = Vec::new();
        for found in deciding.flat_map(|result| result.explanation.deciding()) {
            if !statements.contains(&found) && statements.len() < SIMULATED_REASONS_MAX {
                statements.push(found);
            }
        }
        self.write_statements(result, statements.into_iter());
        let mut keys: Vec<&String> =
            results.iter().flat_map(|result| &result.explanation.absent_keys).collect();
        keys.sort_unstable();
        keys.dedup();
        write_keys(result, keys.into_iter().take(SIMULATED_REASONS_MAX));
        if self.simulation.resources.is_empty() {
            self.write_reasons(result, results.first());
            return;
        }
        result.list("ResourceSpecificResults", results, |member, found| {
            let ResourceResult { arn, explanation } = found;
            member.text("EvalResourceName", arn).text("EvalResourceDecision", word(explanation.verdict));
            self.write_statements(member, explanation.deciding());
            write_keys(member, explanation.absent_keys.iter());
            self.write_reasons(member, Some(found));
        });
    }

    fn write_statements<'s>(
        &self,
        result: &mut Elements,
        statements: impl Iterator<Item = &'s JudgedStatement>,
    ) {
        result.list("MatchedStatements", statements, |member, found| self.write_position(member, found));
    }

    /// Writes the policy of a statement, and the statement's position in it.
    fn write_position(&self, member: &mut Elements, found: &JudgedStatement) {
        let Some(source) = self.simulation.source(found.policy) else { return };
        let kind = if found.policy.is_some() { "IAM Policy" } else { "Resource Policy" };
        member.text("SourcePolicyId", &source.id).text("SourcePolicyType", kind);
        let Some(outline) = source.outline.get(found.number) else { return };
        for (name, position) in [("StartPosition", outline.start), ("EndPosition", outline.end)] {
            member.within(name, |element| {
                element.text("Line", position.line).text("Column", position.column);
            });
        }
    }

    /// All statements that name the action and the resource, with the conditions that do not hold.
    fn write_reasons(&self, result: &mut Elements, found: Option<&ResourceResult<'_>>) {
        let Some(found) = found.filter(|_| self.is_explained) else { return };
        result.list("Explanation", &found.explanation.statements, |member, found| {
            self.write_position(member, found);
            if let Some(source) = self.simulation.source(found.policy) {
                let sid = source.outline.get(found.number).map_or("", |outline| &outline.sid);
                member.text("Policy", &source.title).text("Sid", sid).text("Number", found.number + 1);
            }
            member.text("Effect", if found.effect == Effect::Allow { "Allow" } else { "Deny" });
            member.list("FailedConditions", &found.failed, |condition, failed| {
                condition.text("Key", &failed.key);
                if let Some(values) = &failed.values {
                    condition.text("Value", values.join(", "));
                }
            });
        });
    }
}

fn write_keys<'k>(result: &mut Elements, keys: impl Iterator<Item = &'k String>) {
    result.within("MissingContextValues", |list| {
        for key in keys {
            list.text("member", key);
        }
    });
}

/// The order of verdicts, the most restrictive first.
const fn strictness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::DeniedExplicitly => 0,
        Verdict::DeniedImplicitly => 1,
        Verdict::Allowed => 2,
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allowed => "allowed",
        Verdict::DeniedExplicitly => "explicitDeny",
        Verdict::DeniedImplicitly => "implicitDeny",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn long_work_keeps_no_other_task_of_its_thread_out() {
        let (other, others) = mpsc::channel();
        let work = apart(move |_| others.recv().expect("the other task runs meanwhile"));
        let (done, _) = tokio::join!(work, async { other.send(7) });
        assert_eq!(done.ok(), Some(7));
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_finds_its_caller_gone() {
        let ((go, gone), (say, said)) = (mpsc::channel(), tokio::sync::oneshot::channel());
        let work = apart(move |is_left| {
            gone.recv().expect("the test goes on");
            say.send(is_left()).expect("the test waits");
        });
        assert!(work.now_or_never().is_none(), "under way");
        go.send(()).expect("the work waits");
        assert!(said.await.expect("an answer"), "its caller is gone");
    }
}
