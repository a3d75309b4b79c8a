from django.urls import URLPattern, URLResolver

app_name = "websites"
urlpatterns: list[URLPattern | URLResolver] = []
