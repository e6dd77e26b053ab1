//! Picks AWS's roots from Mozilla's list, so that a function carries five certificates and not all.
#![expect(
    clippy::disallowed_methods,
    reason = "how cargo tells a build script where to write"
)]

use std::path::Path;
use std::{env, fs, io};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

fn main() -> io::Result<()> {
    let named = |der: &[u8], name: &[u8]| der.windows(name.len()).any(|part| part == name);
    let pem: String = webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .filter(|der| named(der, b"Amazon Root CA") || named(der, b"Starfield"))
        .map(|der| {
            let text = BASE64_STANDARD.encode(der);
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        })
        .collect();
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo names no OUT_DIR"))?;
    fs::write(Path::new(&out).join("aws-roots.pem"), pem)
}
