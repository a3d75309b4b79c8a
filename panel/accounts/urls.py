"""URLs of setup, sign-in, the user's own account, and the panel's settings."""

from django.urls import URLPattern, URLResolver, path

from panel.accounts.views import account, administration, links, mail, signing_in

app_name = "accounts"
urlpatterns: list[URLPattern | URLResolver] = [
    path("setup/<str:secret>/", signing_in.setup, name="setup"),
    path("link/<str:secret>/", links.link, name="link"),
    path("login/forgotten/", links.forgotten, name="forgotten"),
    path("login/", signing_in.sign_in, name="login"),
    path("login/code/", signing_in.code, name="code"),
    path("logout/", signing_in.sign_out, name="logout"),
    path("confirm/", signing_in.sudo, name="sudo"),
    path("account/", account.profile, name="account"),
    path("account/password/", account.password, name="password"),
    path("account/sessions/", account.session_list, name="sessions"),
    path("account/sessions/end/", account.sessions_end, name="sessions_end"),
    path("account/sessions/<str:name>/end/", account.session_end, name="session_end"),
    path("account/second-factor/", account.second_factor_page, name="second_factor"),
    path("account/second-factor/recovery-codes/", account.recovery_codes, name="recovery_codes"),
    path("account/second-factor/off/", account.second_factor_off, name="second_factor_off"),
    path("account/tokens/", account.token_list, name="tokens"),
    path("account/tokens/new/", account.token_new, name="token_new"),
    path("account/tokens/<int:pk>/revoke/", account.token_revoke, name="token_revoke"),
    path("account/views/", account.view_save, name="view_save"),
    path("account/views/<int:pk>/delete/", account.view_delete, name="view_delete"),
    path("settings/", administration.settings_index, name="settings"),
    path("settings/self-check/", administration.self_check, name="self_check"),
    path("settings/mail/", mail.mail_settings, name="mail"),
    path("settings/mail/test/", mail.mail_test, name="mail_test"),
    path("settings/mail/delete/", mail.mail_delete, name="mail_delete"),
    path("settings/users/", administration.user_list, name="users"),
    path("settings/users/new/", administration.user_new, name="user_new"),
    path("settings/users/<int:pk>/", administration.user_edit, name="user"),
    path("settings/users/<int:pk>/link/", administration.user_link, name="user_link"),
    path("settings/users/<int:pk>/delete/", administration.user_delete, name="user_delete"),
    path(
        "settings/users/<int:pk>/second-factor-off/",
        administration.user_second_factor_off,
        name="user_second_factor_off",
    ),
    path("settings/teams/", administration.team_list, name="teams"),
    path("settings/teams/new/", administration.team_new, name="team_new"),
    path("settings/teams/<int:pk>/", administration.team_edit, name="team"),
    path("settings/teams/<int:pk>/delete/", administration.team_delete, name="team_delete"),
]
