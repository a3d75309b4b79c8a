from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "panel.accounts"
    label = "accounts"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from panel.accounts.sudo import opened_by_sign_in

        user_logged_in.connect(opened_by_sign_in, dispatch_uid="accounts.sudo")
