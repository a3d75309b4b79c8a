//! Access control: access, auth_basic, auth_request, realip, and satisfy.

use crate::builder::Builder;
use crate::cidr::Cidr;
use crate::error::{ConfError, Result};
use crate::model::*;
use crate::parser::Directive;
use crate::table::{ctx::*, *};
use crate::template::variable_name;
use crate::vars::VarKind;

pub const TABLE: &[Spec] = &[
    with("allow", HSL | LMT | STREAM | SSRV, ONE, |b, d| {
        rule(b, d, true)
    }),
    with("deny", HSL | LMT | STREAM | SSRV, ONE, |b, d| {
        rule(b, d, false)
    }),
    simple(
        "auth_basic",
        HSL | LMT,
        ONE,
        Setter::Tmpl(|b| &mut b.loc().auth_basic),
    ),
    with("auth_basic_user_file", HSL | LMT, ONE, |b, d| {
        let base = b.conf_prefix.clone();
        let path = b.path_template(&d.args()[0], &base, &d.place)?;
        store(&mut b.loc().auth_basic_user_file, path, d)
    }),
    simple(
        "auth_delay",
        HSL,
        ONE,
        Setter::Msec(|b| &mut b.loc().auth_delay),
    ),
    with("auth_request", HSL, ONE, |b, d| {
        let word = &d.args()[0];
        let uri = if word == "off" {
            None
        } else {
            Some(word.clone())
        };
        store(&mut b.loc().auth_request, uri, d)
    }),
    with("auth_request_set", HSL, TWO, |b, d| {
        let name = variable_name(&d.args()[0], &d.place)?;
        let var = b.vars.define(name, VarKind::Assigned, &d.place)?;
        let value = b.template(&d.args()[1], &d.place)?;
        push(&mut b.loc().auth_request_set, (var, value));
        Ok(())
    }),
    with("set_real_ip_from", HSL | STREAM | SSRV, ONE, |b, d| {
        let word = &d.args()[0];
        match b.network(word, &d.place) {
            Some(net) => push(&mut b.loc().set_real_ip_from, net),
            None => {
                let found = crate::listen::resolve(word, 80)
                    .map_err(|e| ConfError::new(format!("{e} in set_real_ip_from \"{word}\"")))?;
                for addr in found {
                    let net = Cidr::parse(&addr.ip().to_string()).expect("an address is a network");
                    push(&mut b.loc().set_real_ip_from, net);
                }
            }
        }
        Ok(())
    }),
    with("real_ip_header", HSL, ONE, |b, d| {
        let source = match d.args()[0].to_ascii_lowercase().as_str() {
            "x-real-ip" => RealIpSource::Known(RealIpHeader::XRealIp),
            "x-forwarded-for" => RealIpSource::Known(RealIpHeader::XForwardedFor),
            "proxy_protocol" => RealIpSource::Known(RealIpHeader::ProxyProtocol),
            other => RealIpSource::Header(other.to_string()),
        };
        store(&mut b.loc().real_ip_header, source, d)
    }),
    simple(
        "real_ip_recursive",
        HSL,
        ONE,
        Setter::Flag(|b| &mut b.loc().real_ip_recursive),
    ),
    with("satisfy", HSL, ONE, |b, d| {
        let value = choice(
            d,
            &d.args()[0],
            &[("all", Satisfy::All), ("any", Satisfy::Any)],
        )?;
        store(&mut b.loc().satisfy, value, d)
    }),
];

fn rule(b: &mut Builder, d: &Directive, allow: bool) -> Result<()> {
    let word = &d.args()[0];
    let net = if word == "all" {
        None
    } else {
        Some(
            b.network(word, &d.place)
                .ok_or_else(|| invalid_parameter(d, word))?,
        )
    };
    push(&mut b.loc().access, AccessRule { allow, net });
    Ok(())
}
