//! What a plan decides on: its stages and edges, without the parts that only a stage's own relay needs.
//!
//! The outline of a small plan is part of the order. A large one is read from the plan's commit whenever a
//! history begins, in parts that are small enough for the server.

use ekiden_core::ids::RunId;
use ekiden_core::manifest::{Manifest, Part, PlanRules, Stage};
use serde::{Deserialize, Serialize};

use crate::order::{PAYLOAD_BYTES_MAX, PlanOrder};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OutlineTask {
    pub(crate) run: RunId,
    pub(crate) plan: String,
    pub(crate) base: String,
    pub(crate) known: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OutlinePart {
    /// At least one, if there are more.
    pub(crate) stages: Vec<Stage>,
    pub(crate) rules: Option<Box<PlanRules>>,
    pub(crate) is_last: bool,
}

impl OutlineTask {
    pub(crate) fn of(order: &PlanOrder, known: usize) -> Self {
        Self {
            run: order.run.clone(),
            plan: order.plan.clone(),
            base: order.base.clone(),
            known,
        }
    }
}

/// The part after the stages that are known.
pub(crate) fn part(manifest: &Manifest, known: usize) -> OutlinePart {
    let stages = manifest.stages.iter().skip(known).cloned().collect();
    let plan = manifest.plan.clone();
    let Manifest { mut stages, plan } = outline(&Manifest { stages, plan });
    let mut bytes = bytes(&plan);
    let mut fits = |stage: &Stage| {
        bytes += self::bytes(stage);
        bytes <= PAYLOAD_BYTES_MAX
    };
    let fitting = stages.iter().take_while(|stage| fits(stage)).count();
    stages.truncate(fitting.max(1));
    OutlinePart {
        is_last: known + stages.len() >= manifest.stages.len(),
        stages,
        rules: plan,
    }
}

/// Why a plan is too large for the server, which needs each stage together with the plan's rules in one
/// piece.
pub(crate) fn too_large(outline: &Manifest) -> Option<String> {
    let rules = bytes(&outline.plan);
    let over = |bytes: usize| {
        bytes
            .checked_sub(PAYLOAD_BYTES_MAX)
            .filter(|over| *over > 0)
    };
    if let Some(over) = over(rules) {
        return Some(format!(
            "the plan's own settings are {over} bytes too large for a fleet, without any stage"
        ));
    }
    outline.stages.iter().find_map(|stage| {
        let over = over(rules + bytes(stage))?;
        let (id, needs) = (&stage.id, stage.part.needs.len());
        Some(format!(
            "the stage {id} is {over} bytes too large for a fleet: its name and the {needs} stages that it needs travel in one piece"
        ))
    })
}

fn bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |text| text.len())
}

/// The relay does its own retries, inside the activity.
pub(crate) fn outline(manifest: &Manifest) -> Manifest {
    let mut outline = manifest.clone();
    for stage in &mut outline.stages {
        stage.task = String::new();
        stage.verification = None;
        stage.part = Part {
            needs: std::mem::take(&mut stage.part.needs),
            on_fail: stage.part.on_fail,
            estimate_tokens: stage.part.estimate_tokens,
            take: stage.part.take,
            runs_on: std::mem::take(&mut stage.part.runs_on),
            ..Part::default()
        };
    }
    if let Some(rules) = &mut outline.plan {
        let kept = PlanRules {
            architecture: String::new(),
            document: String::new(),
            ..(**rules).clone()
        };
        **rules = kept;
    }
    outline
}

#[cfg(test)]
mod tests {
    use ekiden_core::ids::StageId;
    use ekiden_core::manifest::Need;

    use super::*;
    use crate::load::plan_of;

    #[test]
    fn the_parts_of_a_large_outline_fit_and_make_the_whole() {
        let manifest = plan_of(2_000, 8, |at| at.checked_sub(8));
        let mut whole = Manifest {
            stages: Vec::new(),
            plan: None,
        };
        loop {
            let part = part(&manifest, whole.stages.len());
            let bytes = serde_json::to_vec(&part).unwrap().len();
            assert!((1..64 * 1024).contains(&bytes), "{bytes}");
            whole.stages.extend(part.stages);
            whole.plan = part.rules;
            if part.is_last {
                break;
            }
        }
        assert_eq!(whole, outline(&manifest));
    }

    // shows: FLT-01
    #[test]
    fn a_stage_that_is_too_large_is_named_with_what_it_has_too_much() {
        let mut manifest = plan_of(10_000, 8, |at| at.checked_sub(8));
        let said = |manifest: &Manifest| too_large(&outline(manifest));
        assert_eq!(said(&manifest), None);
        let before: Vec<StageId> = manifest.stages.iter().map(|one| one.id.clone()).collect();
        let need = |stage| Need {
            stage,
            optional: false,
        };
        let needs: Vec<Need> = before.into_iter().take(9_999).map(need).collect();
        manifest.stages[9_999].part.needs = needs;
        let why = said(&manifest).unwrap();
        assert!(why.starts_with("the stage S9999 is "), "{why}");
        assert!(why.contains("the 9999 stages"), "{why}");

        manifest.stages[9_999].part.needs.clear();
        manifest.stages[9_999].task_name = "x".repeat(PAYLOAD_BYTES_MAX);
        let why = said(&manifest).unwrap();
        let over: usize = why.split(' ').find_map(|word| word.parse().ok()).unwrap();
        let fitting = PAYLOAD_BYTES_MAX - over;
        manifest.stages[9_999].task_name = "x".repeat(fitting + 1);
        assert!(said(&manifest).unwrap().contains(" is 1 bytes too large"));
        manifest.stages[9_999].task_name = "x".repeat(fitting);
        assert_eq!(said(&manifest), None);
        let part = part(&manifest, 9_999);
        assert!(bytes(&part) < 64 * 1024 && part.is_last);
    }
}
