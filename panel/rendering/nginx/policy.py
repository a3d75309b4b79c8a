"""Allow-list of raw directives for nginx and gallop.

Source: https://nginx.org/en/docs/dirindex.html.
"""

from __future__ import annotations

from panel.rendering.nginx.judges import JUDGES, KINDS_OF_NGINX
from panel.rendering.policy import Policy, Where, reasons, table
from panel.rendering.readers.nginx import read

# Contexts: s server, l location, i if, e limit_except.
ALLOWED = table("""
# the request
absolute_redirect,port_in_redirect,server_name_in_redirect,etag,log_not_found,log_subrequest sl flag
recursive_error_pages,chunked_transfer_encoding,reset_timedout_connection,tcp_nodelay,tcp_nopush sl flag
msie_padding,msie_refresh,client_body_in_single_buffer,override_charset,rewrite_log,uninitialized_variable_warn sli flag
ignore_invalid_headers,underscores_in_headers,merge_slashes,http2 s flag
sendfile sli flag
if_modified_since,lingering_close,keepalive_disable,server_tokens sl word+
connection_pool_size,request_pool_size,client_header_buffer_size s size
client_max_body_size,client_body_buffer_size,postpone_output,sendfile_max_chunk,send_lowat,read_ahead sl size
postpone_gzipping,{proxy,fastcgi}_send_lowat sl size
subrequest_output_buffer_size,directio_alignment sl size
directio,aio_write sl word
client_body_timeout,send_timeout,resolver_timeout,lingering_time,lingering_timeout,auth_delay sl time
client_header_timeout s time
keepalive_timeout sl time+
keepalive_time,keepalive_min_timeout sl time
keepalive_requests,max_ranges,types_hash_max_size,types_hash_bucket_size,max_headers sl number
referer_hash_{max_size,bucket_size} sl number
large_client_header_buffers,output_buffers sl number size
default_type sl mime
types{} sl @none
charset sli word
charset_types,gzip_types,sub_filter_types,addition_types,brotli_types,zstd_types sl mime+
source_charset sli word
limit_rate,limit_rate_after sli text
resolver sl resolver+
internal,break,stub_status,empty_gif,flv,mp4,random_index sli
# choosing
index sl file_name+
try_files sl @try_files
error_page sli @error_page
location{} sl @location
if{} sl @if
limit_except{} l word+
return sli @return
rewrite sli @rewrite
set sli variable text
root sli path
autoindex,autoindex_exact_size,autoindex_localtime sl flag
autoindex_format sl word
# headers
add_header,add_trailer sli header text word?
add_header_inherit,add_trailer_inherit sl word
expires sli text text?
early_hints sl text+
add_before_body,add_after_body,mirror,auth_request,post_action sl uri_or_off
mirror_request_body sl flag
auth_request_set sl variable text
# access
allow,deny sle address
satisfy sl word
auth_basic sle text
auth_basic_user_file sle password_path
limit_req sl @limit_req
limit_conn sl zone number
limit_{req,conn}_status sl number
limit_{req,conn}_log_level sl word
limit_{req,conn}_dry_run sl flag
set_real_ip_from sl address
real_ip_header sl header
real_ip_recursive sl flag
valid_referers sl text+
secure_link,secure_link_md5,secure_link_secret sl text
userid,userid_domain,userid_expires,userid_mark,userid_name,userid_p3p,userid_path,userid_service sl text
userid_flags sl word+
# logs
access_log slie @access_log
error_log sl log word?
# filters
gzip,brotli,zstd sli flag_or_static
gzip_vary,gunzip sl flag
gzip_static,brotli_static,zstd_static sl word
gzip_comp_level,brotli_comp_level,zstd_comp_level sl number
gzip_min_length,brotli_min_length,zstd_min_length,brotli_window,gzip_window,slice sl size
gzip_http_version sl word
gzip_proxied sl word+
gzip_disable sl regex+
gzip_hash,gzip_buffers,gunzip_buffers,brotli_buffers,zstd_buffers sl number size?
gzip_no_buffer,sub_filter_once,sub_filter_last_modified sl flag
sub_filter sl text text
image_filter sl word+
image_filter_{buffer,jpeg_quality,webp_quality,sharpen} sl number_or_size
image_filter_{interlace,transparency} sl flag
mp4_{buffer_size,max_buffer_size} sl size
mp4_{limit_rate,limit_rate_after,start_key_frame} sl word
more_{set,clear}_headers,more_{set,clear}_input_headers sli text+
modsecurity sl flag
ancient_browser,modern_browser sl text+
# TLS
ssl_ecdh_curve,ssl_prefer_server_ciphers,ssl_session_tickets,ssl_early_data s word
ssl_protocols,ssl_alpn s word+
ssl_ciphers s ciphers
ssl_buffer_size s size
ssl_session_timeout,ssl_ocsp_timeout s time
ssl_session_cache s word+
ssl_verify_client,ssl_stapling,ssl_stapling_verify,ssl_reject_handshake,ssl_ocsp,ssl_ocsp_cache s word
ssl_verify_depth s number
ssl_stapling_responder,ssl_ocsp_responder s target
ssl_client_certificate,ssl_trusted_certificate s ca_path
ssl_dhparam,ssl_crl,ssl_stapling_file,ssl_session_ticket_key s path
ssl_conf_command s @conf_command
http2_{max_concurrent_streams,max_concurrent_pushes,max_requests} s number
http2_{chunk_size,recv_buffer_size,body_preread_size,max_field_size,max_header_size} sl size
http2_{recv_timeout,idle_timeout} s time
http2_push_preload,http3,http3_hq,quic_retry,quic_gso s flag
http3_{max_concurrent_streams,stream_buffer_size} s size
quic_active_connection_id_limit s number
# other servers
{proxy,fastcgi,uwsgi,scgi,grpc,memcached}_pass li target
{proxy,fastcgi,uwsgi,scgi,memcached,grpc}_{connect_timeout,send_timeout,read_timeout,next_upstream_timeout} sl time
{proxy,fastcgi,uwsgi,scgi,memcached,grpc}_next_upstream_tries sl number
{proxy,fastcgi,uwsgi,scgi,memcached,grpc}_next_upstream sl word+
{proxy,fastcgi,uwsgi,scgi,memcached,grpc}_buffer_size sl size
{proxy,fastcgi,uwsgi,scgi}_buffers sl number size
{proxy,fastcgi,uwsgi,scgi}_{busy_buffers_size,temp_file_write_size,max_temp_file_size} sl size
{proxy,fastcgi,uwsgi,scgi}_{buffering,request_buffering,pass_request_body,pass_request_headers} sl flag
{proxy,fastcgi,uwsgi,scgi}_{force_ranges,cache_background_update,cache_lock,cache_revalidate} sl flag
{proxy,fastcgi,uwsgi,scgi}_{ignore_client_abort,socket_keepalive} sl flag
{proxy,fastcgi,uwsgi,scgi,grpc}_{intercept_errors,ssl_verify,ssl_session_reuse,ssl_server_name} sl flag
{memcached,grpc}_socket_keepalive,proxy_cache_convert_head,fastcgi_keep_conn sl flag
grpc_pass_request_body,grpc_pass_request_headers,proxy_pass_trailers sl flag
{proxy,fastcgi,uwsgi,scgi,grpc}_{hide_header,pass_header} sl header
{proxy,fastcgi,uwsgi,scgi,grpc}_ignore_headers sl header+
{proxy,grpc}_set_header slie header text
{proxy,fastcgi,uwsgi,scgi}_{cache_bypass,no_cache} sl text+
{proxy,fastcgi,uwsgi,scgi}_cache sl zone
{proxy,fastcgi,uwsgi,scgi}_cache_key sl text
{proxy,fastcgi,uwsgi,scgi}_{cache_valid,cache_use_stale,cache_methods} sl word+
{proxy,fastcgi,uwsgi,scgi}_{cache_lock_age,cache_lock_timeout} sl time
{proxy,fastcgi,uwsgi,scgi}_{cache_min_uses,cache_max_range_offset} sl number_or_size
{proxy,fastcgi,uwsgi,scgi}_limit_rate sl text
fastcgi_catch_stderr sl text
fastcgi_index sl file_name
fastcgi_split_path_info l regex
fastcgi_param,uwsgi_param,scgi_param sl environment_name text word?
uwsgi_modifier{1,2} sl number
memcached_gzip_flag sl number
proxy_redirect,proxy_cookie_domain,proxy_cookie_path,proxy_cookie_flags sl text+
proxy_http_version sl word
proxy_method,proxy_set_body sl text
proxy_headers_hash_{max_size,bucket_size} sl number
{proxy,uwsgi,grpc}_ssl_{protocols,ecdh_curve,alpn} sl word+
{proxy,uwsgi,grpc}_ssl_ciphers sl ciphers
{proxy,uwsgi,grpc}_ssl_name sl text
{proxy,uwsgi,grpc}_ssl_verify_depth sl number
{proxy,uwsgi,grpc}_ssl_trusted_certificate sl ca_path
{proxy,uwsgi,grpc}_ssl_{crl,certificate,certificate_key} sl path
{proxy,uwsgi,grpc}_ssl_conf_command sl @conf_command
""")

MAIN = "nginx accepts this directive only outside of server blocks, where it would change all sites of the web server"
LOADS = "the directive runs code in the web server"
FILES = "the directive writes files on the host"
SCOPE = "the directive would also change connections of other sites"
OWN = "sites have a field for this setting; enter the value in the field"

REFUSED = reasons(
    {
        "the directive includes configuration that Paddock did not check": "include modsecurity_rules "
        "modsecurity_rules_file "
        "modsecurity_rules_remote modsecurity_transaction_id",
        LOADS: "load_module perl* js_* lua_* *_by_lua passenger* wasm* ssl_engine njs_* set_by_lua* content_by_lua* "
        "rewrite_by_lua* access_by_lua* header_filter_by_lua* body_filter_by_lua* log_by_lua* init_by_lua* "
        "balancer_by_lua* ssl_certificate_by_lua* init_worker_by_lua* exit_worker_by_lua* server_rewrite_by_lua*",
        "the directive can run commands and read other sites' responses": "ssi ssi_*",
        "a stylesheet or an entity can read any file and any address": "xslt_* xml_entities xml_external_entities",
        "Paddock sets the folders that a site's files must be in": "confine_files",
        "Paddock sets this directive for automatic HTTPS": "acme_tls_challenges",
        "the directive lets visitors write files": "dav_* create_full_put_path min_delete_depth",
        FILES: "{proxy,fastcgi,uwsgi,scgi}_store {proxy,fastcgi,uwsgi,scgi}_store_access client_body_temp_path "
        "{proxy,fastcgi,uwsgi,scgi}_temp_path client_body_in_file_only",
        "Paddock sets how nginx follows symbolic links": "confine_files disable_symlinks open_file_cache "
        "open_file_cache_errors "
        "open_file_cache_min_uses open_file_cache_valid open_file_cache_events",
        MAIN: "user env pid daemon master_process worker_* working_directory lock_file events http stream mail "
        "thread_pool pcre_jit timer_resolution debug_* accept_* multi_accept use ssl_object_cache_inheritable "
        "map map_hash_* geo upstream split_clients charset_map limit_req_zone limit_conn_zone limit_zone log_format "
        "log_format_escape open_log_file_cache {proxy,fastcgi,uwsgi,scgi}_cache_path variables_hash_* "
        "server_names_hash_* geoip_* geoip2* keyval* js_import proxy_cache_purge quic_bpf quic_host_key "
        "match body expect header require send "
        "otel_* mgmt google_perftools_profiles vhost_traffic_status* "
        "server_product status_socket status_zone state api api_* status prepared_responses_* quic_retry_above",
        "this directive is a setting of upstreams; change the site's upstreams": "zone hash ip_hash least_conn "
        "least_time random keepalive sticky queue ntlm health_check* fair",
        "Paddock sets this directive with the certificate; choose the certificate in the server block": "ssl "
        "ssl_certificate ssl_certificate_key ssl_password_file ssl_certificate_cache ssl_certificate_compression "
        "proxy_ssl_certificate_cache uwsgi_ssl_certificate_cache grpc_ssl_certificate_cache",
        "other users of the host could read the passphrase; use a key without a passphrase": "proxy_ssl_password_file "
        "uwsgi_ssl_password_file grpc_ssl_password_file",
        "the directive opens connections from another address": "{proxy,fastcgi,uwsgi,scgi,memcached,grpc,tunnel}_bind "
        "memcached_bind proxy_protocol proxy_ssl",
        "visitors could choose the server that receives the request": "tunnel_* proxy_pass_error_message http_proxy",
        "Paddock sets the ports; change them in the server block": "listen",
        "Paddock sets the names; change them in the server block": "server_name",
        "the directive opens another server block; add a server block to the site instead": "server",
        "the directive can also serve files outside its folder; use the location's field Alias": "alias",
        "the directive applies to all sites of the web server": "aio http2_push "
        "http2_push_concurrent_pushes http2_pool_size http2_streams_index_size",
        "this directive is for mail or stream servers": "auth_http* protocol imap_* pop3_* smtp_* starttls xclient "
        "proxy_smtp_auth proxy_timeout proxy_responses proxy_requests proxy_{download,upload}_rate proxy_half_close "
        "proxy_session_drop ssl_preread preread_* proxy_protocol_timeout "
        "ssl_handshake_timeout pass max_errors",
        "the web server no longer supports this directive; remove the directive": "http2_body_preread http2_recv "
        "spdy* msie",
    }
)


def _context(where: Where) -> str:
    inner = {"if": "i", "limit_except": "e", "location": "l"}
    return inner.get(where.parents[-1], "") if where.parents else {"server": "s", "location": "l"}.get(where.place, "")


POLICY = Policy(
    read=read,
    allowed=ALLOWED,
    refused=REFUSED,
    kinds=KINDS_OF_NGINX,
    judges=JUDGES,
    context=_context,
    own={"types": "mime_row"},
)
