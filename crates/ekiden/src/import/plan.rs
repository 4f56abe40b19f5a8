//! A plan that another program executed in part: which stages it finished.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::StageId;
use ekiden_core::limits::RETRIES_MAX;
use ekiden_core::manifest::{Manifest, Take};
use ekiden_core::settings::{Imported, Took};
use ekiden_core::time::Millis;
use serde_json::Value;

use super::source::Source;
use crate::failure::Failure;

/// The manifest and the state of each program that has plans, with its words for a finished stage.
const PLANS: [(&str, &str, &str, &[&str]); 2] = [
    (".casm", "manifest.json", "state.json", &["completed"]),
    (
        ".cleave",
        "pipeline.yaml",
        "pipeline_state.json",
        &["complete"],
    ),
];

/// Where CASM keeps what its sessions pass on.
const HANDOFFS: &str = ".casm/handoffs";

/// A plan that was begun.
#[derive(Debug)]
pub struct Begun {
    pub manifest: PathBuf,
    pub done: Done,
    /// Stages that its state names.
    pub stages: usize,
}

/// What is done of a plan.
#[derive(Debug)]
pub struct Done {
    pub stages: BTreeSet<String>,
    /// How often a stage is retried, if the other program's settings say so.
    pub retries: Option<u32>,
    /// What finished stages of CASM passed on: files from the project's directory, named
    /// `<stage>-<title>.md`.
    pub handoffs: Vec<String>,
    /// What stages of a cleave pipeline learned, for the stages after them.
    pub knowledge: Option<String>,
    pub imported: Imported,
}

/// The plan in a project; `None` if none was begun.
pub fn begun(source: &Source) -> Result<Option<Begun>, Failure> {
    for (dir, manifest, state, done) in PLANS {
        let manifest = format!("{dir}/{manifest}");
        let Some(text) = source.text(&manifest)? else {
            continue;
        };
        let Some(state) = source.object(&format!("{dir}/{state}"))? else {
            continue;
        };
        let stages = state.get("sessions").or_else(|| state.get("stages"));
        let Some(stages) = stages.and_then(Value::as_object) else {
            continue;
        };
        let status = |stage: &Value| {
            let status = stage.get("status").unwrap_or(stage).as_str();
            status.is_some_and(|status| done.contains(&status))
        };
        let finished: BTreeSet<String> = stages
            .iter()
            .filter(|(_, stage)| status(stage))
            .map(|(id, _)| id.clone())
            .collect();
        let casm = source.object(".casmrc.json")?.unwrap_or_default();
        let retries = casm.get("maxRetriesPerSession").filter(|_| dir == ".casm");
        let retries = retries.and_then(Value::as_u64);
        let handoffs = match dir {
            ".casm" => handoffs(source)?,
            _ => Vec::new(),
        };
        let shared = format!("{dir}/shared/KNOWLEDGE.md");
        let of = format!("{text}\0{finished:?}");
        return Ok(Some(Begun {
            manifest: source.dir.join(manifest),
            stages: stages.len(),
            done: Done {
                stages: finished,
                retries: retries
                    .map(|number| u32::try_from(number).unwrap_or(u32::MAX).min(RETRIES_MAX)),
                handoffs,
                knowledge: source.text(&shared)?.map(|_| shared),
                imported: Imported {
                    from: dir.to_owned(),
                    hash: sha256_hex(of.as_bytes()),
                    sessions: Vec::new(),
                    stages: stages.iter().filter_map(took).collect(),
                },
            },
        }));
    }
    Ok(None)
}

/// How long a session took according to CASM.
fn took((id, stage): (&String, &Value)) -> Option<(StageId, Took)> {
    let result = stage.get("result")?;
    let figure = |name: &str| result.get(name).and_then(Value::as_u64).unwrap_or(0);
    let took = Took {
        tokens: figure("tokensUsed"),
        time: Millis(figure("duration")),
    };
    let id = StageId::try_from(id.clone()).ok()?;
    (took != Took::default()).then_some((id, took))
}

/// Names that could be patterns are left out: the list of what a stage is shown may hold patterns.
fn handoffs(source: &Source) -> Result<Vec<String>, Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let names = source.names(HANDOFFS)?.into_iter();
    let named = names.filter(|name| name.ends_with(".md") && name.chars().all(plain));
    Ok(named.map(|name| format!("{HANDOFFS}/{name}")).collect())
}

impl Done {
    /// Marks finished stages, so that their validation has to confirm them. A stage without a validation is
    /// done again. A stage is shown what the stages that it needs passed on.
    pub fn mark(&self, manifest: &mut Manifest) {
        for stage in &mut manifest.stages {
            let needs = stage.part.needs.iter().map(|need| need.stage.as_str());
            let needs = needs.filter(|need| self.stages.contains(*need));
            let of = needs.map(|need| format!("{HANDOFFS}/{need}-"));
            let of = of.flat_map(|of| {
                self.handoffs
                    .iter()
                    .filter(move |name| name.starts_with(&of))
            });
            stage.part.context.extend(of.cloned());
            stage.part.context.extend(self.knowledge.clone());
        }
        for stage in &mut manifest.stages {
            if self.stages.contains(stage.id.as_str()) && stage.verification.is_some() {
                stage.part.take = Take::Assume;
            }
            stage.part.retries = self.retries.unwrap_or(stage.part.retries);
        }
    }
}
