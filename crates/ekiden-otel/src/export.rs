//! Where spans and metrics go, and how.
//!
//! `opentelemetry-otlp` reads the specification's variables itself: addresses, headers, service and
//! resource. Requests use `ureq`, like notifications: no redirects, and no proxy for this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use async_trait::async_trait;
use ekiden_engine::notify::http_agent;
use futures_executor::block_on;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::resource::{EnvResourceDetector, ResourceDetector as _};
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use percent_encoding::percent_decode_str;
use prost::Message as _;

use crate::metrics::{Measure, Metrics};

/// How much of an answer is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The only encoding that is supported.
const PROTOCOL: &str = "http/protobuf";
/// The value of a setting or variable that switches it off.
const NONE: &str = "none";

/// Which signals are sent, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// The user's setting. Without it, the variables say where to.
    base: Option<String>,
    traces: bool,
    metrics: bool,
}

/// Why nothing is sent. Never contains an address, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error(
        "`{variable}` names an encoding that ekiden does not speak; it sends {PROTOCOL}, uncompressed"
    )]
    Protocol { variable: String },
    #[error("the endpoint, a header or the compression that is set cannot be used")]
    Settings,
}

impl Endpoints {
    /// What the setting and the specification's variables name; `None` if nothing should be sent.
    pub fn of(
        setting: Option<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Fault> {
        let says = |name: &str, word: &str| {
            variable(name).is_some_and(|text| text.trim().eq_ignore_ascii_case(word))
        };
        if setting.as_deref() == Some(NONE) || says("OTEL_SDK_DISABLED", "true") {
            return Ok(None);
        }
        let is_set = |name: &str| variable(name).is_some();
        let is_sent = |signal: &str| {
            let named = setting.is_some()
                || is_set("OTEL_EXPORTER_OTLP_ENDPOINT")
                || is_set(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
            named && !says(&format!("OTEL_{signal}_EXPORTER"), NONE)
        };
        let (traces, metrics) = (is_sent("TRACES"), is_sent("METRICS"));
        for (signal, _) in [("TRACES", traces), ("METRICS", metrics)]
            .into_iter()
            .filter(|(_, is_sent)| *is_sent)
        {
            for (what, known) in [("PROTOCOL", PROTOCOL), ("COMPRESSION", NONE)] {
                let own = format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
                let names = [own, format!("OTEL_EXPORTER_OTLP_{what}")];
                if let Some(name) = names.into_iter().find(|name| is_set(name))
                    && !says(&name, known)
                {
                    return Err(Fault::Protocol { variable: name });
                }
            }
        }
        let base = setting.map(|base| base.trim_end_matches('/').to_owned());
        let endpoints = Self {
            base,
            traces,
            metrics,
        };
        Ok((traces || metrics).then_some(endpoints))
    }

    pub(crate) fn exporters(&self, instance: &str, client: &Client) -> Result<Exporters, Fault> {
        let resource = resource(instance);
        let spans = self.traces.then(|| self.span_exporter(&resource, client));
        let metrics = self.metrics.then(|| self.meter_provider(resource.clone()));
        Ok(Exporters {
            spans: spans.transpose()?,
            metrics: metrics
                .transpose()?
                .map(|provider| (Metrics::new(&provider), provider)),
        })
    }

    fn span_exporter(&self, resource: &Resource, client: &Client) -> Result<SpanExporter, Fault> {
        let mut builder = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone());
        if let Some(base) = &self.base {
            builder = builder.with_endpoint(format!("{base}/v1/traces"));
        }
        let mut exporter = builder.build().map_err(|_| Fault::Settings)?;
        exporter.set_resource(resource);
        Ok(exporter)
    }

    fn meter_provider(&self, resource: Resource) -> Result<SdkMeterProvider, Fault> {
        // A client of their own: the answer to a metric says nothing about spans.
        let mut builder = MetricExporter::builder()
            .with_http()
            .with_http_client(Client::default());
        if let Some(base) = &self.base {
            builder = builder.with_endpoint(format!("{base}/v1/metrics"));
        }
        let exporter = builder.build().map_err(|_| Fault::Settings)?;
        Ok(SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(exporter).build())
            .with_resource(resource)
            .build())
    }
}

pub(crate) struct Exporters {
    spans: Option<SpanExporter>,
    metrics: Option<(Metrics, SdkMeterProvider)>,
}

impl Exporters {
    /// Sends spans, and retries where that may help. Blocks for seconds if nobody answers.
    pub(crate) fn send(&self, spans: Vec<SpanData>) -> Result<(), String> {
        let Some(exporter) = &self.spans else {
            return Ok(());
        };
        let sent = block_on(exporter.export(spans));
        sent.map_err(|error| match error {
            OTelSdkError::InternalFailure(why) => why,
            OTelSdkError::AlreadyShutdown | OTelSdkError::Timeout(_) => error.to_string(),
        })
    }

    pub(crate) fn record(&self, measure: &Measure) {
        if let Some((metrics, _)) = &self.metrics {
            metrics.record(measure);
        }
    }

    /// Sends the sums. Blocks for seconds if nobody answers.
    pub(crate) fn flush(&self) -> Result<(), String> {
        let Some((_, provider)) = &self.metrics else {
            return Ok(());
        };
        let flushed = provider.force_flush();
        flushed.map_err(|_| "the endpoint does not take the metrics".to_owned())
    }
}

/// The sender. The run or watched session is the instance, so two that work at once do not overwrite each
/// other's sums.
fn resource(instance: &str) -> Resource {
    let unnamed = |text: &str| text.starts_with("unknown_service");
    let found = Resource::builder().build();
    let service = found.get(&"service.name".into());
    // The SDK leaves the variable's values encoded. What another variable names is not in it.
    let encoded = EnvResourceDetector::new().detect();
    let decoded = encoded
        .iter()
        .filter(|(key, value)| found.get(key).as_ref() == Some(*value))
        .map(|(key, value)| KeyValue::new(key.clone(), decoded(&value.as_str())));
    let builder = Resource::builder()
        .with_attributes(decoded)
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ]);
    match service.is_none_or(|name| unnamed(&name.as_str())) {
        true => builder.with_service_name("ekiden").build(),
        false => builder.build(),
    }
}

/// A text with `%2C` for a comma, as its author meant it.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    /// The status of the answer to the newest request; 0 until there is one.
    status: Arc<AtomicU16>,
    /// How many spans the endpoint took and threw away.
    rejected: Arc<AtomicUsize>,
}

impl Client {
    /// The newest answer means that the same request would be refused again, by the rules of OTLP.
    pub(crate) fn refuses(&self) -> bool {
        let status = self.status.load(Ordering::Relaxed);
        (400..500).contains(&status) && !matches!(status, 408 | 429)
    }

    /// How many spans the endpoint has thrown away since this was asked last.
    pub(crate) fn rejected(&self) -> usize {
        self.rejected.swap(0, Ordering::Relaxed)
    }

    /// Why nothing is sent, while requests are still repeated.
    pub(crate) fn why(&self) -> String {
        match self.status.load(Ordering::Relaxed) {
            0 => "nobody answers".to_owned(),
            status => format!("the endpoint answers with status {status}"),
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let agent = http_agent(&request.uri().to_string());
        self.status.store(0, Ordering::Relaxed);
        let mut answer = agent.run(request.map(|body| body.to_vec()))?;
        self.status
            .store(answer.status().as_u16(), Ordering::Relaxed);
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = Bytes::from(body.read_to_vec()?);
        let part = ExportTraceServiceResponse::decode(&*body).unwrap_or_default();
        let rejected = part.partial_success.map(|part| part.rejected_spans);
        let rejected = usize::try_from(rejected.unwrap_or_default()).unwrap_or_default();
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
        Ok(answer.map(|_| body))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn of(setting: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<Endpoints>, Fault> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Endpoints::of(setting.map(str::to_owned), variable)
    }

    fn signals(setting: Option<&str>, variables: &[(&str, &str)]) -> (bool, bool) {
        let found = of(setting, variables).unwrap();
        found.map_or((false, false), |found| (found.traces, found.metrics))
    }

    // shows: UIX-08
    #[test]
    fn what_is_sent_is_what_setting_and_variables_name() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://here");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://here");
        let url = Some("http://there");
        assert_eq!(signals(None, &[]), (false, false));
        assert_eq!(signals(url, &[]), (true, true));
        assert_eq!(signals(None, &[all]), (true, true));
        assert_eq!(signals(None, &[traces]), (true, false));
        assert_eq!(
            signals(None, &[all, ("OTEL_METRICS_EXPORTER", "none")]),
            (true, false)
        );
        assert_eq!(
            signals(url, &[("OTEL_SDK_DISABLED", "TRUE")]),
            (false, false)
        );
        assert_eq!(signals(Some("none"), &[all]), (false, false));
    }

    #[test]
    fn a_resource_is_what_its_author_meant() {
        assert_eq!(decoded("a%2Cb%20c"), "a,b c");
        assert_eq!(decoded("50%, %zz, %é"), "50%, %zz, %é");
    }

    // shows: UIX-08
    #[test]
    fn another_encoding_is_told_and_not_tried() {
        let variable = "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned();
        let grpc = [(variable.as_str(), "grpc")];
        let url = Some("http://here");
        assert_eq!(
            of(url, &grpc),
            Err(Fault::Protocol {
                variable: variable.clone()
            })
        );
        let own = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf");
        let no_metrics = ("OTEL_METRICS_EXPORTER", "none");
        assert!(of(url, &[grpc[0], own, no_metrics]).is_ok());
        let compression = |word| [("OTEL_EXPORTER_OTLP_COMPRESSION", word)];
        assert!(of(url, &compression("gzip")).is_err());
        assert!(of(url, &compression("none")).is_ok());
    }

    // shows: UIX-08
    #[test]
    fn refused_metrics_do_not_mean_that_spans_are_refused() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoints = Endpoints {
            base: Some(format!("http://{}", server.local_addr().unwrap())),
            traces: true,
            metrics: true,
        };
        let client = Client::default();
        let exporters = endpoints.exporters("run", &client).unwrap();
        exporters.record(&Measure::Session {
            agent: "claude".to_owned(),
            left: None,
            context_tokens: None,
        });
        let refused = std::thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let (mut request, _) = server.accept().unwrap();
                let read = request.read(&mut [0; 64 * 1024]).unwrap();
                assert!(read > 0);
                let answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
                request.write_all(answer.as_bytes()).unwrap();
                // Closed only after the answer was read.
                request
            });
            let refused = exporters.flush();
            assert!(answering.join().is_ok());
            refused
        });
        assert!(refused.is_err());
        assert!(!client.refuses());
    }
}
