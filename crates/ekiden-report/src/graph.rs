//! The graph of a plan as static SVG: stages in layers, each after all that it needs, with its state in colour and
//! text.

use ekiden_core::manifest::graph::Graph;
use ekiden_core::text::short;
use minijinja::{Value, context};

use crate::page::{foreign, state_word};
use crate::render::rendered;
use crate::timeline::{Stage, State, Timeline};

/// Stages of a graph; beyond that, the table says more.
pub const STAGES_MAX: usize = 100;
/// Stages beside each other. If a layer has more, the layers are placed beside each other instead, so that the page
/// stays narrow.
const ACROSS_MAX: usize = 5;
/// A stage, and the room around it.
const NODE: (u64, u64) = (150, 44);
const GAP: u64 = 12;
/// Room for the edges between two layers.
const EDGES: u64 = 34;
const ID_CHARS_MAX: usize = 8;
const NAME_CHARS_MAX: usize = 20;
/// How often the layers are sorted: more passes change little.
const SWEEPS: usize = 3;

/// The stages of a plan; nothing for a single relay and for too many stages.
pub fn graph(timeline: &Timeline) -> Option<String> {
    let stages = &timeline.stages;
    if !timeline.is_plan || stages.len() > STAGES_MAX {
        return None;
    }
    let needs = Graph::new(stages.iter().map(|stage| stage.needs.clone()).collect());
    let layers = in_order(needs.waves().unwrap_or_default(), &needs);
    let grid = Grid::of(&layers);
    let places = grid.places(&layers, stages.len());
    let (width, height) = grid.size(layers.len());
    let mut edges = Vec::new();
    for (stage, to) in stages.iter().zip(&places) {
        let needs = stage.needs.iter().filter_map(|need| places.get(*need));
        edges.extend(needs.map(|from| grid.edge(*from, *to)));
    }
    let placed = stages.iter().zip(&places);
    let nodes = placed.map(|(stage, at)| node(stage, *at));
    let parts = context! {
        width,
        height,
        edges,
        node => NODE,
        stages => nodes.collect::<Vec<_>>(),
    };
    Some(rendered("graph.svg", parts))
}

/// The places of layers and of the stages in them.
struct Grid {
    /// Layers lie below each other, not beside.
    down: bool,
    /// The stages of the largest layer.
    widest: u64,
}

impl Grid {
    fn of(layers: &[Vec<usize>]) -> Self {
        let widest = layers.iter().map(Vec::len).max().unwrap_or(1);
        Self {
            down: widest <= ACROSS_MAX,
            widest: widest as u64,
        }
    }

    /// From one stage to the next in a layer, and from one layer to the next.
    fn steps(&self) -> (u64, u64) {
        match self.down {
            true => (NODE.0 + GAP, NODE.1 + EDGES),
            false => (NODE.1 + GAP, NODE.0 + EDGES),
        }
    }

    fn size(&self, layers: usize) -> (u64, u64) {
        let (across, along) = self.steps();
        let (across, along) = (self.widest * across + GAP, layers as u64 * along);
        match self.down {
            true => (across, along),
            false => (along, across),
        }
    }

    fn places(&self, layers: &[Vec<usize>], stages: usize) -> Vec<(u64, u64)> {
        let (across, along) = self.steps();
        let mut places = vec![(0, 0); stages];
        for (layer, rank) in layers.iter().zip(0..) {
            let left = GAP + (self.widest - layer.len() as u64) * across / 2;
            for (stage, index) in layer.iter().zip(0..) {
                let (across, along) = (left + index * across, EDGES / 2 + rank * along);
                places[*stage] = match self.down {
                    true => (across, along),
                    false => (along, across),
                };
            }
        }
        places
    }

    fn edge(&self, from: (u64, u64), to: (u64, u64)) -> String {
        match self.down {
            true => {
                let (x, y) = (from.0 + NODE.0 / 2, from.1 + NODE.1);
                let (to_x, to_y) = (to.0 + NODE.0 / 2, to.1);
                let half = u64::midpoint(y, to_y);
                format!("M{x} {y}C{x} {half} {to_x} {half} {to_x} {to_y}")
            }
            false => {
                let (x, y) = (from.0 + NODE.0, from.1 + NODE.1 / 2);
                let (to_x, to_y) = (to.0, to.1 + NODE.1 / 2);
                let half = u64::midpoint(x, to_x);
                format!("M{x} {y}C{half} {y} {half} {to_y} {to_x} {to_y}")
            }
        }
    }
}

fn node(stage: &Stage, (x, y): (u64, u64)) -> Value {
    let class = match stage.state {
        State::Done => "done",
        State::Failed => "failed",
        State::Asks | State::Blocked | State::Interrupted => "attention",
        State::Working => "working",
        State::Waiting | State::Skipped | State::LeftOut => "quiet",
    };
    let name = foreign(&stage.name);
    context! {
        x,
        y,
        class,
        state => state_word(stage.state),
        id => stage.id.as_str(),
        label => short(stage.id.as_str(), ID_CHARS_MAX),
        short_name => short(&name, NAME_CHARS_MAX),
        name,
    }
}

/// Sorts each layer by what its stages need and by what needs them, so that few edges cross.
fn in_order(mut layers: Vec<Vec<usize>>, graph: &Graph) -> Vec<Vec<usize>> {
    for _ in 0..SWEEPS {
        let mut at = vec![0; graph.len()];
        let downwards = layers.iter_mut();
        downwards.for_each(|layer| sort(layer, |stage| graph.needs(stage), &mut at));
        let upwards = layers.iter_mut().rev();
        upwards.for_each(|layer| sort(layer, |stage| graph.needed_by(stage), &mut at));
    }
    layers
}

/// Sorts a layer by the middle of each stage's neighbours, in thousandths of a layer; a stage without any keeps its
/// place.
fn sort<'g>(layer: &mut [usize], neighbours: impl Fn(usize) -> &'g [usize], at: &mut [usize]) {
    let part = |index: usize, of: usize| (2 * index + 1) * 500 / of;
    for (index, stage) in layer.iter().enumerate() {
        let beside = neighbours(*stage);
        let sum: usize = beside.iter().map(|stage| at[*stage]).sum();
        at[*stage] = sum
            .checked_div(beside.len())
            .unwrap_or(part(index, layer.len()));
    }
    layer.sort_by_key(|stage| at[*stage]);
    for (index, stage) in layer.iter().enumerate() {
        at[*stage] = part(index, layer.len());
    }
}
